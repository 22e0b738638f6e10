-- count(): sessions, and those that have ended and were not told yet
return {call('ZCARD', l), call('ZCARD', x)}
