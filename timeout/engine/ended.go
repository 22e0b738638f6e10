package engine

// manyEnded is how many ended leases of a topic are told of one by one. Beyond it a center asks for all its leases in one call.
const manyEnded = 64

// EndedBySet returns the keys of the running tasks whose leases a set has ended, by its answers. After 64 of a topic comes
// one key without an ID for all others. EndedBySet is for Wakers and centers.
func EndedBySet(tasks []Task, answers []Answer) []Key {
	return ended(answers, func(i int) (Key, bool) { return tasks[i].Key(), !tasks[i].IfAbsent })
}

// EndedByRemoval is EndedBySet for removals.
func EndedByRemoval(removals []Removal, answers []Answer) []Key {
	return ended(answers, func(i int) (Key, bool) { return removals[i].Key, answers[i].Version == 0 })
}

// ended returns the keys of the running tasks changed by a call.
func ended(answers []Answer, changed func(i int) (key Key, does bool)) (keys []Key) {
	var count map[string]int // by topic; most calls end no lease
	for i, answer := range answers {
		if answer.Was != Running || answer.Err != nil {
			continue
		}
		key, does := changed(i)
		if !does {
			continue
		}
		if count == nil {
			count = make(map[string]int)
		}
		count[key.Topic]++
		switch n := count[key.Topic]; {
		case n <= manyEnded:
			keys = append(keys, key)
		case n == manyEnded+1:
			keys = append(keys, Key{Topic: key.Topic})
		}
	}
	return keys
}
