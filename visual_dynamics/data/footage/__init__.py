"""Clips become steady shots, from which pairs can be cut.

reading.py    a video file becomes frames with their times, one at a time, upright; a steady rate from any rate
shots.py      where one shot ends and the next begins
stabilise.py  the motion of the camera is measured and taken out; a still camera is left alone
"""
