package api

import "github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"

// Answer and the other types here are the shapes of requests and answers. Package wire defines them,
// for clients too.
type (
	Answer       = wire.Answer
	Answers      = wire.Answers
	Bucket       = wire.Bucket
	Callback     = wire.Callback
	Cause        = wire.Cause
	Causes       = wire.Causes
	Cleared      = wire.Cleared
	Counts       = wire.Counts
	Duration     = wire.Duration
	Execution    = wire.Execution
	Executions   = wire.Executions
	Feedback     = wire.Feedback
	Here         = wire.Here
	Histogram    = wire.Histogram
	Instant      = wire.Instant
	KeyedMove    = wire.KeyedMove
	KeyedSetting = wire.KeyedSetting
	Keys         = wire.Keys
	Members      = wire.Members
	Moves        = wire.Moves
	Problem      = wire.Problem
	Removals     = wire.Removals
	Sample       = wire.Sample
	Setting      = wire.Setting
	Settings     = wire.Settings
	Settled      = wire.Settled
	Stats        = wire.Stats
	Task         = wire.Task
	Tasks        = wire.Tasks
	Topic        = wire.Topic
	TopicCounts  = wire.TopicCounts
	TopicSetting = wire.TopicSetting
	TopicStats   = wire.TopicStats
	Topics       = wire.Topics
	When         = wire.When
)

// maxShown is how much of a bad value an error shows.
const maxShown = 60
