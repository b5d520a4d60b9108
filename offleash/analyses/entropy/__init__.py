"""Entropy of tokens and answers: did diversity collapse?"""
