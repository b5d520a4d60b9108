"""Sweep: the same models at several decodings; is it only the decoding?"""
