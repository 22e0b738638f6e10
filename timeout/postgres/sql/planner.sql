-- What finds tasks by key says "state + 0", which the index of states is of no use for.
-- Tables that grow from nothing in seconds have no statistics yet: the indexes are always right.
-- Nested loops keep the order of what was asked for, in which all lock rows.
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
    set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true),
    set_config('jit', 'off', true)
