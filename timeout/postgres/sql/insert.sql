-- As set.sql, where no such task is there yet: a quarter of that statement's time is for the case
-- that one is. Where one is, it fails with unique_violation.
WITH {clock}
INSERT INTO {s}.hw_tasks AS t
    (filed, due, version, lease, topic, attempts, slot, state, was, id, node, error, span, callback, payload, created)
SELECT k.at, k.at, nextval('{s}.hw_number'), 0, k.topic, 0, k.slot, 1, 0, k.id, '', '', 0, coalesce(k.callback, ''), coalesce(k.payload, ''), k.now
{given}
RETURNING t.topic, t.id, t.was, t.version, t.due
