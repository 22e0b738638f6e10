-- Fences kept nodes with an old view from leasing. A node knows by itself when its view is too old. The only row of
-- hw_view is still locked while the members change; it had the number of the view. Processes of an earlier version
-- have errors, until they are replaced: they neither lease nor stay members, so others get their slots.
DROP TABLE {s}.hw_fences;
ALTER TABLE {s}.hw_view RENAME COLUMN term TO locked;
