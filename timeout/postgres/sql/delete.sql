WITH gone AS (
    DELETE FROM {s}.hw_tasks t
    USING unnest($1::integer[], $2::text[], $3::bigint[], $4::smallint[], $5::bigint[]) AS k (topic, id, n, state, version)
    WHERE t.topic = k.topic AND t.id = k.id AND t.state + 0 IN (1, 2, 4)
        AND k.state IN (0, t.state) AND k.version IN (0, t.version) AND {known}
    RETURNING k.n, t.state, t.topic, t.id
),
{forget}
SELECT n, state, 0::bigint, 0::bigint FROM gone
