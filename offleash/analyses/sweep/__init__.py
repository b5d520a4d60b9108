"""Sweep: the same models at several decodings; is a change only due to the decoding?"""
