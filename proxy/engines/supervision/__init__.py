"""Processes of engines: started, watched, restarted, drained, and replaced one by one."""
