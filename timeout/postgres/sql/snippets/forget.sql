forgotten AS (DELETE FROM {s}.hw_executions x USING gone WHERE x.topic = gone.topic AND x.id = gone.id)
