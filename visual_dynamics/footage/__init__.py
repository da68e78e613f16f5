"""A folder of clips becomes pairs of frames in files.

prepare.py      all clips, in many processes; manifest, summary and a picture to look at
clips.py        which clips a folder holds; one clip becomes its shards and its record
plan.py         from which stretches of a clip pairs are cut: shots, pieces, takes
camera.py       the camera's motion is measured and taken out
cut.py          a take becomes small square frames and good pairs
reading.py      a video file becomes frames with their times, upright, one at a time; PennAction's labels
carry_over.py   which motion codes carry over to other scenes
"""
