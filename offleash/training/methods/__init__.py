"""Methods of RLVR, one file each."""
