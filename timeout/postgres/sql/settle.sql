WITH {clock},
k AS MATERIALIZED (
    SELECT p.no AS topic, k.*
    FROM {s}.hw_topics p, unnest($2::text[], $3::bigint[], $4::smallint[], $5::bigint[], $6::bigint[], $7::boolean[], $8::text[], $9::bigint[], $10::bigint[])
        WITH ORDINALITY AS k (id, lease, outcome, due, after, refund, error, started, took, n)
    WHERE p.no = $1
),
settled AS (
    UPDATE {s}.hw_tasks t SET
        state = k.outcome,
        lease = 0,
        filed = CASE WHEN k.outcome = 1 THEN CASE WHEN k.due >= 0 THEN k.due ELSE {in k.after} END ELSE clock.now END,
        attempts = t.attempts - k.refund::integer,
        error = CASE WHEN k.outcome = 3 OR k.refund THEN t.error ELSE k.error END
    FROM k, clock
    WHERE t.topic = k.topic AND t.id = k.id AND t.lease = k.lease AND t.state + 0 = 2
    RETURNING k.n, k.refund, k.outcome, k.error AS failure, k.started, k.took, t.topic, t.id, t.version, t.attempts, t.node, clock.now
),
logged AS (
    INSERT INTO {s}.hw_executions (at, version, started, took, topic, attempt, outcome, id, node, error)
    SELECT now, version, started, took, topic, attempts, outcome, id, node, failure FROM settled WHERE NOT refund
)
SELECT n FROM settled
