-- A task that begins a new run is as if just set but for an error, and its attempt is logged as done or
-- dead. The number of that attempt and its node are read from the snapshot: nobody changes them as
-- long as the lease is valid.
WITH {clock},
k AS MATERIALIZED (
    SELECT p.no AS topic, k.*, CASE WHEN k.outcome <> 1 THEN clock.now WHEN k.due >= 0 THEN k.due ELSE {in k.after} END AS at, clock.now
    FROM clock, {s}.hw_topics p, unnest($2::text[], $3::bigint[], $4::smallint[], $5::bigint[], $6::bigint[], $7::boolean[], $8::boolean[], $9::text[], $10::bigint[], $11::bigint[])
        WITH ORDINALITY AS k (id, lease, outcome, due, after, release, new_run, error, started, took, n)
    WHERE p.no = $1
),
settled AS (
    UPDATE {s}.hw_tasks t SET
        state = k.outcome,
        lease = 0,
        filed = k.at,
        due = CASE WHEN k.new_run THEN k.at ELSE t.due END,
        calls = t.calls + CASE WHEN k.new_run THEN t.attempts - k.release::integer ELSE 0 END,
        failures = t.failures + CASE WHEN k.new_run THEN t.attempts - (k.error = '' OR k.release)::integer ELSE 0 END,
        attempts = CASE WHEN k.new_run THEN 0 ELSE t.attempts - k.release::integer END,
        node = CASE WHEN k.new_run THEN '' ELSE t.node END,
        error = CASE WHEN k.new_run THEN k.error WHEN k.outcome = 3 OR k.release AND k.outcome = 1 THEN t.error ELSE k.error END
    FROM k
    WHERE t.topic = k.topic AND t.id = k.id AND t.lease = k.lease AND t.state + 0 = 2 AND {announce}
    RETURNING k.n, k.release, k.new_run, k.outcome, k.error AS failure, k.started, k.took, t.topic, t.id, t.version, t.attempts, t.node
),
logged AS (
    INSERT INTO {s}.hw_executions (at, version, started, took, topic, attempt, outcome, id, node, error)
    SELECT now, version, started, took, topic,
        CASE WHEN new_run THEN (SELECT t.attempts FROM {s}.hw_tasks t WHERE t.topic = s.topic AND t.id = s.id) ELSE attempts END,
        CASE WHEN NOT new_run THEN outcome WHEN failure = '' THEN 3 ELSE 4 END, id,
        CASE WHEN new_run THEN (SELECT t.node FROM {s}.hw_tasks t WHERE t.topic = s.topic AND t.id = s.id) ELSE node END,
        failure
    FROM settled s, clock
    WHERE NOT release AND ($12 OR NOT new_run OR failure <> '')
)
SELECT n FROM settled
