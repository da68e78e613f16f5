"""A folder of clips becomes pairs of frames in files.

sources.py   which clips a folder holds, their scenes and licences; PennAction's labels
reading.py   a video file becomes frames with their times, upright, one at a time
shots.py     where one shot ends and the next begins
camera.py    the camera's motion is measured and taken out
crops.py     which square is kept: the middle, around what moves, a given box
plan.py      from which stretches of a clip pairs are cut, each with its camera and crop
cut.py       the plan becomes small square frames and good pairs
clip.py      one clip: its shards, then its record
prepare.py   all clips, in many processes; manifest, summary and a picture to look at
"""
