"""Clips become pairs of frames in files.

reading.py        a video file becomes frames with their times, one at a time, upright; a steady rate from any rate
shots.py          where one shot ends and the next begins
stabilise.py      the motion of the camera is measured and taken out; a still camera is left alone
crops.py          which square is kept: the middle, a window around what moves, a given box
takes.py          the plan for a clip: stretches to cut pairs from, each with its camera and crop
cutting.py        the plan is carried out: small square frames, good pairs, bad ones dropped
clip_files.py     what one clip gives is written: shards, then a record
sources.py        the clips of a folder, their scenes and licences; which scenes are held out
prepare.py        all clips of a folder, in many processes; manifest and summary
contact_sheet.py  a picture to look at
"""
