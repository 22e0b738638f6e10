-- The same for fences: one that was seen in the future was seen before the step.
UPDATE {s}.hw_fences SET at = {now} WHERE at > {now}
