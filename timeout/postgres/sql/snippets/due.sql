{s}.hw_tasks t
    WHERE t.topic = (SELECT no FROM p) AND t.state = {state} AND t.filed >= (SELECT {since} FROM front) AND t.filed <= (SELECT now FROM clock) - $2::bigint