"""Entropies: do tokens, or answers, become more alike?"""
