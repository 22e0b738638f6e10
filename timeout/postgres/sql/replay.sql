WITH {clock}
UPDATE {s}.hw_tasks t SET
    was = t.state, state = 1, filed = clock.now, due = clock.now, version = nextval('{s}.hw_number'), lease = 0,
    calls = t.calls + t.attempts, failures = t.failures + t.attempts, attempts = 0
FROM unnest($1::integer[], $2::text[]) WITH ORDINALITY AS k (topic, id, n), clock
WHERE t.topic = k.topic AND t.id = k.id AND t.state + 0 = 4 AND {known}
RETURNING k.n, t.was, t.version, t.due
