-- Fences kept nodes with an old view from leasing. A node knows by itself when its view is too old.
DROP TABLE hw_fences;

DELETE FROM hw_meta WHERE name = 'term';
