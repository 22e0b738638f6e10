(
        SELECT t.ctid AS place, t.filed, t.id, t.slot
        FROM {s}.hw_tasks t
        WHERE t.topic = (SELECT no FROM p) AND t.state = {state} AND t.filed >= (SELECT {since} FROM front) AND t.filed <= (SELECT now FROM clock) - $2::bigint
        ORDER BY t.filed, t.id
        LIMIT $11::bigint -- there may be very many of other slots
    ) k
    -- PostgreSQL 15.13 does not compare a ctid again when it locks a row, and 15.18 does.
    JOIN {s}.hw_tasks t ON t.ctid = k.place AND t.state = {state} AND t.filed = k.filed AND t.id = k.id
    WHERE (k.slot & $10::smallint) = ANY ($9::smallint[])