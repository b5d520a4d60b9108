"""Does a blend of base and RL keep more of what the base reaches than other models of the same pass@1?"""
