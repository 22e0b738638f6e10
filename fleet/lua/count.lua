-- count(): answers with the number of sessions, and the number of ends not told yet.
return {call('ZCARD', l), call('ZCARD', x)}
