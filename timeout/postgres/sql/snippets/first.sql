(SELECT t.ctid AS place, t.filed, t.id, t.slot
        FROM {s}.hw_tasks t
        WHERE t.topic = (SELECT no FROM p) AND t.state = {state} AND t.filed <= (SELECT now FROM clock) - $11::bigint
        ORDER BY t.filed, t.id
        LIMIT $13::bigint)