package main

import "context"

func openMemory() (opened, error) { return opened{}, errNotThere }

func openSQLite(path string) (opened, error) {
	_, err := sqlitePath(path)
	if err == nil {
		err = errNotThere
	}
	return opened{}, err
}

func openPostgres(_ context.Context, url string) (opened, error) {
	return opened{name: "PostgreSQL at " + where(url)}, errNotThere
}

func openRedis(_ context.Context, url string) (opened, error) {
	return opened{name: "Redis at " + where(url)}, errNotThere
}

// openIndexed has Redis in front of PostgreSQL.
func openIndexed(_ context.Context, redis, database string) (opened, error) {
	return opened{name: "PostgreSQL at " + where(database) + " with Redis at " + where(redis) + " in front of it"}, errNotThere
}
