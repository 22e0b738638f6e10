package debughttp

import (
	"cmp"
	"slices"
)

// selection chooses the entries of a page while all entries pass by. It keeps two pages at most,
// however many entries there are.
type selection struct {
	q     *query
	total int // matching entries
	far   int // those on the page's side of the query's place
	kept  []entry

	// shrunk says that the first page of kept is sorted, and bounds the page wanted.
	shrunk bool
}

// compare compares two places in the order of the query.
func (s *selection) compare(a, b place) int {
	if s.q.desc {
		return b.compare(a)
	}
	return a.compare(b)
}

// distance compares how far two places are from the query's place.
func (s *selection) distance(a, b place) int {
	if s.q.before != nil {
		return s.compare(b, a)
	}
	return s.compare(a, b)
}

// offer takes a matching entry into account.
func (s *selection) offer(e *entry) {
	s.total++
	e.place = place{s.q.sort.key(e), e.ID}
	if from := cmp.Or(s.q.after, s.q.before); from != nil && s.distance(e.place, *from) <= 0 {
		return
	}
	s.far++
	if s.shrunk && s.distance(e.place, s.kept[s.q.limit-1].place) >= 0 {
		return
	}
	if s.kept = append(s.kept, *e); len(s.kept) == 2*s.q.limit {
		s.shrink()
	}
}

// shrink keeps the nearest entries only.
func (s *selection) shrink() {
	slices.SortFunc(s.kept, func(a, b entry) int { return s.distance(a.place, b.place) })
	s.kept = s.kept[:min(len(s.kept), s.q.limit)]
	s.shrunk = len(s.kept) == s.q.limit
}

// page returns the entries of the page in order, and how many are before them.
func (s *selection) page() (entries []entry, preceding int) {
	s.shrink()
	if s.q.before != nil {
		slices.Reverse(s.kept)
		return s.kept, s.far - len(s.kept)
	}
	return s.kept, s.total - s.far
}
