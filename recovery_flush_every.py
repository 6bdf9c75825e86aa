def recovery_flush(*args):
    return True
