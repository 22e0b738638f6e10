-- nodes(): answers with the number of nodes whose lease is not over.
return {call('ZCOUNT', g, text(math.floor(clock() / 1000)), '+inf')}
