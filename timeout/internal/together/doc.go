// Package together has the tests of several drivers together. They are a module of their own: a
// module's tests are among its requirements, and a user of one engine wants no other's.
//
// The lists below name the tests of the whole timeout center: of each promise, fault and outage. Names after
// "enginetest:" are in the suite of every engine.
//
// # The test of each promise
//
// Five designs made these promises: A and B timing wheels in a process, C a wheel in Redis with HTTP callbacks, D
// NetEase's scheduler, E Alibaba's shards, F its topics and slots in Redis over a database.
//
//   - A1, A2, A4, B4 a wheel: `TestKeyedConcurrently`, `TestTouchAgainstTheHand`
//   - A3 sizes, intervals: `TestConfigErrorsNameTheValueAndTheLimit`, `TestKeyedArguments`
//   - A5 stopping: `TestStop`, `TestKeyedAfterStop`, `TestAfterStopNothingIsHandedOver`
//   - A6, B5, B6 setting: `TestKeyedSetTwiceKeepsTheLastValueAndFiresOnce`, `TestKeyedSetThenMove`, enginetest: `Times`
//   - A7, B9 removing: `TestKeyedRemove`, `TestRemovingFromATakenSlotLeavesAGap`, `TestRemovedTimerLetsGoOfItsValue`
//   - A8, B7 a tick: `TestFiresNeverEarlyAndAtMostTwoTicksLate`, `TestPanickingCallbackIsReportedAndLosesNobody`,
//     `TestBlockedWorkersGetHelp`
//   - A9, B3, D1, D2 beyond a revolution: `TestWheelAgreesWithModel`, `TestAWeekTakes297Slots`,
//     `TestKeyedHeartbeatWithATimeoutBeyondARevolution`
//   - B1, B2, B8, B10 heartbeats: `TestTouchedTimerLivesUntilItsDelayHasPassedOnceMore`,
//     `TestPlaceIsVisitedInTimeAndByTake`, `TestMovesThatReturnTrueHold`
//   - B5 drain: `TestKeyedDrain`, `TestKeyedDrainTakesWhatWaitsForAWorkerToo`
//   - C1, C3 stopping: `TestGracefulEnd`, `TestStoppingHandsBackWhatWasNotBegun`, `TestAStuckTargetLeavesRoomForOthers`
//   - C2, C11, D5 callbacks: `TestATargetGetsThePayloadAndAllThatIsPromised`, `TestACenterCallsTargetsOfAllKinds`
//   - C4 bad targets: `TestAMethodOrHeaderThatCantBeIsRefusedWhenItIsSet`, `TestWhatIsNoTargetIsRefusedWhenItIsSet`
//   - C5, C6, C14, F-4, F-5, F-6 keys by slot, bounded: `TestNoScriptHoldsUpAServerWithManyTasks`
//   - C7, C8, F-7 by id: enginetest: `StatesKept`, `StatesForgotten`, `Batches`
//   - C9, C13, F-9 one taker: enginetest: `EachSetFiresExactlyOnce`, `ConcurrentCallsAreLinearizable`, `Leases`
//   - C10 panics, hangs: `TestAnErrorSaysWhatIsNext`, `TestHandlersThatHangHoldUpNobodyForEver`
//   - C12 scripts by name: `TestScriptsAreLoadedAgain`, `TestAServerThatIsAwayIsAnErrorAndNotTriedAgain`
//   - C15 one node per script: `TestAClusterDoesWhatEveryEngineMust`
//   - D3, D7, D14, E5 bounded memory: `TestTheIndexHasOnlyWhatIsDueSoonAndNotTooMuchOfIt`
//   - D4, D16 feedback: `TestFeedbackSettlesWhatWasAccepted`, `TestOneTaskOnItsWay`
//   - D6, D11 the log: enginetest: `Log`, `LogRetained`; `TestDeadLetters`
//   - D8, D9 ZooKeeper: `TestEachNodeWatchesTheNextSmallerOne`, `TestAKilledLeaderIsMissedAndTheNextOneLeads`
//   - D10, E4, F-8 dealt slots: `TestSlotsAreDealtEvenlyAndFewChangeHands`,
//     `TestSeveralNodesShareTheWorkAndTakeOverFromOneThatIsGone`
//   - D12 new topics: `TestATopicHasACallbackForTasksWithoutOne`
//   - D13 saved first: `TestFlaw20WhatIsSetIsSavedBeforeAWorkerCanTakeIt`
//   - D15 retries: `TestWhatFailsIsTriedAgainWithLongerWaitsAndIsDeadThen`
//   - D17 message queues: `TestAStreamGetsThePayloadAndAllThatIsPromised`
//   - D18 flow control: `TestNoMoreThanConcurrencyRunAndNoMoreThanRateBegin`, `TestADeadTargetGetsFewCallsAndHoldsUpNobody`
//   - E1, E3, F-10 attempts: enginetest: `NothingIsEarly`, `Attempts`
//   - E2 shards: `TestTwoDatabasesDoWhatEveryEngineMust`, `TestTheShardOfATaskIsForEver`,
//     `TestAServerThatIsAwayHoldsUpOnlyWhatItHas`, `TestAnotherListOfShardsIsRefused`
//   - E6 large tables: `TestEveryStatementUsesTheIndexThatItIsFor`, `TestWhatWaitsInOtherSlotsIsNotReadToTheEnd`
//   - F-1 index and primary: `TestRedisInFrontOfATableDoesWhatEveryEngineMust`, `TestTwoWithRedisInFrontOfPostgres`
//   - F-2, F-3 topics, slots: enginetest: `Topics`, `Slots`; `TestTheSlotIsTheHashOfTheIDOrOfWhatStandsInBraces`
//   - F-11 at least once: `TestAHundredRandomKillsLoseNothing`
//   - `Again`: enginetest: `NewRun`, `LogNewRun`; `TestAgainRunsATaskAsIfItWereSetAnew`,
//     `TestATaskSetOrRemovedWhileItRunsHasNoNewRun`, `TestAgainWithADelayOutOfRangeIsAFailure`
//   - `Topic.Every`: enginetest: `Every`; `TestTheNextRunIsTheFirstTimeAfterTheLastRunAndAfterNow`,
//     `TestAPeriodicTaskEndsOnlyForAReason`, `TestAPeriodicTaskRunsAtItsTimesHoweverLongARunTakes`,
//     `TestARunThatFailsForTheLastTimeIsCountedAndTheNextComesAtItsTime`, `TestARunThatKillsItsNodesIsGivenUpToo`,
//     `TestMissedRunsAreOneRun`
//   - workers that pull: `TestPullsOfSeveralNodesShareTheTasks`, `TestThePulledTaskOfADeadWorkerComesAgain`,
//     `TestPulledTasksSurviveTheDeathOfNodesAndWorkers`; enginetest: `Pulls`
//   - limits of all nodes: `TestThePartsOfALimitAreTheWhole`, `TestAllNodesTogetherKeepTheGlobalLimits`,
//     `TestAllNodesTogetherKeepTheGlobalRate`, `TestWhileSlotsChangeHandsAtMostTwiceTheLimitRuns`,
//     `TestANodeWithAnOldViewGetsNothingOfATopicWithAGlobalLimit`, `TestARescueKeepsTheGlobalLimit`,
//     `TestTheGlobalLimitHoldsWhileTheHeartbeatsOfANodeFail`, `TestTheGlobalLimitHoldsWhileANodeIsStopped`,
//     `TestTheGlobalLimitHoldsWhileNodesComeAndGo`, `TestALimitForAllNodesHoldsWithAndWithoutAnIndex`
//   - priorities: `TestTopicsUseThePlacesByTheirPriorities`, `TestNoTopicStarves`,
//     `TestANodeRunsNoMoreThanItsConcurrencyAndByPriority`, `TestATopicThatWaitsForAPlaceLeasesOneTaskAndHandsItBack`
//
// # The test of each fault
//
// These are faults of the designs behind the center, and of today's products.
//
//   - F1 a gap in ticking: `TestFlaw1AGapInTickingLeavesNothingBehind`
//   - F2 a short delay is lost: `TestFlaw2ADelayShorterThanATickIsKept`
//   - F3, F33 taken out too soon: `TestFlaw3AWorkerThatDiesAfterTakingATaskDoesNotLoseIt`, enginetest: `Times`
//   - F4, F6 removals: `TestFlaw4ARemovedTaskStaysRemoved`, `TestFlaw6ATaskIsRemovedByItsIDWhateverItsTime`
//   - F5 an edited task fires twice: `TestFlaw5ATaskThatIsChangedFiresOnce`
//   - F7, F43 all due tasks at once: `TestFlaw7WhatIsDueAtOnceIsTakenInPortions`, `TestNoScriptHoldsUpAServerWithManyTasks`
//   - F8 local time in keys: `TestFlaw8NoTimeZoneDecidesWhereATaskIs`
//   - F9, F10, F35 clients' clocks: `TestFlaw9NothingFiresEarly`, enginetest: `NothingIsEarly`
//   - F10b unguarded calls: `TestAHostileTargetHoldsNobodyUp`, `TestANameThatLeadsInsideIsNotCalled`,
//     `TestTheKeyOfOneSetIsThatOfAllItsAttemptsAndOfNothingElse`
//   - F10c scripts sent each time: `TestScriptsAreLoadedAgain`
//   - F11 a failure starves others: `TestFlaw11ATaskThatFailedDoesNotStarveTheOthers`
//   - F12 a late commit or rollback: `TestFlaw12AWorkerWhoseLeaseHasEndedChangesNothing`, enginetest: `Tokens`
//   - F13 a rollback over a newer time: `TestFlaw13AFailureDoesNotOverwriteANewerTime`
//   - F14 no extension: `TestFlaw14AHandlerThatTakesLongerThanItsLeaseRunsOnce`, `TestALongHandlerKeepsItsLease`
//   - F15 equal content is one task: `TestFlaw15TasksWithTheSameContentAreTwo`
//   - F16 an unbounded rollback: `TestFlaw16LeasesThatHaveEndedAreTakenInPortions`
//   - F17, F18 in one store alone: `TestFlaw17WhatIsInTheTableAndNotInRedisIsFound`, `TestWhatTheIndexWasNotToldOfIsFound`,
//     `TestAnIndexThatIsEmptiedOrGoneForAWhileLosesNothing`
//   - F19 slots can't grow: `TestATopicGrowsUnderLoadAndCrashesWithoutLosingOrDoublingATask`, enginetest: `Growing`
//   - F19b ownership for safety: enginetest: `ClaimedOnce`
//   - F19c large keys: enginetest: `Dropped`; `TestASlotOfAClusterIsMovedUnderLoad`
//   - F19d topics break the hash tag: `TestWhatNoEngineCouldKeepIsRefused`
//   - F19e "O(1)": a pull is O(log n + m), in the wheel O(m)
//   - F20 queued before it is saved: `TestFlaw20WhatIsSetIsSavedBeforeAWorkerCanTakeIt`
//   - F21, F23 two owners: `TestANodeWithAnOldViewGetsNothingOfATopicWithAGlobalLimit`, `TestAZombieJoinsAsTheLast`
//   - F22, F29, F38 memory: `TestTheIndexHasOnlyWhatIsDueSoonAndNotTooMuchOfIt`
//   - F24 log and state apart: `TestTheAttemptsOfOneSetAreThereOnce`
//   - F25 scans without an index: `TestEveryStatementIsDoneByIndex`, `TestEveryStatementUsesTheIndexThatItIsFor`
//   - F26 lost feedback: `TestFeedbackSettlesWhatWasAccepted`
//   - F27 a dead service is hammered: `TestADeadTargetGetsFewCallsAndHoldsUpNobody`
//   - F28 a pause for each of many: enginetest: `Batches`; `TestManyAreLeasedInOneCall`
//   - F30, F31, F32 a wheel panics or fires twice: `TestFlaw30ATimeThatHasPassedEndsNothing`,
//     `TestFlaw32AMoveToLessThanATickFiresOnce`, `TestATaskRunsOnceAndNotBeforeItsTime`
//   - F34, F36 taken and leased in two steps: `TestFlaw34And36WhatIsTakenHasALeaseInTheSameStep`
//   - F37, F39 news as the only trigger: `TestTheLastViewIsUsedWhileTheServerIsAway`, enginetest: `EachSetFiresExactlyOnce`
//   - F40, F41 passed over at a crash: `TestAHundredRandomKillsLoseNothing`, `TestAKilledLeaderIsMissedAndTheNextOneLeads`
//   - F42 a cursor from the clock: `TestTheServersClockMayBeWrongAndStepped`
//
// # The test of each outage
//
// These tests kill real servers and processes, stop them, or lie to them. Those of `timeoutd` are part of `make interop`.
// `HEARTWHEEL_LONG_FAULTS=1` makes outages longer, and kills 1,000.
//
//   - 100 kills under load: `TestAHundredRandomKillsLoseNothing`
//   - a kill between two steps: `TestAProcessIsKilledBetweenTwoStepsWithRedis`,
//     `TestAProcessIsKilledBetweenTwoStepsWithPostgres`
//   - a stopped owner: `TestAnOwnerThatIsStoppedForLongerThanItsLeaseWithRedis`,
//     `TestAnOwnerThatIsStoppedForLongerThanItsLeaseWithPostgres`
//   - kills while settling: `TestProcessesThatAreKilledLoseNothingThatWasAcknowledged`,
//     `TestNothingThatWasAcknowledgedIsLostWhenAProcessIsKilled`, `TestKilledWithSQLite`,
//     `TestKilledWithAQueueInMemoryInFrontOfSQLite`
//   - nodes' clocks apart: `TestNodesWhoseClocksAreFiveSecondsApart`
//   - a server's clock wrong, or stepped: `TestTheServersClockMayBeWrongAndStepped`,
//     `TestWhatWasMadeBeforeTheClockWasSteppedBackEndsInItsTime`, `TestALeaseFromBeforeTheClockWasSteppedBackIsShortened`,
//     `TestMembersFromBeforeTheClockWasSteppedBackEndInTheirTime`,
//     `TestAnIndexWhoseClockIsWrongFindsWhatIsDueInTime`
//   - daylight saving, leap days: `TestBordersOfMinutesYearsAndDaylightSavingMakeNoDifference`
//   - etcd away: `TestEtcdIsAwayForAWhile`
//   - Redis killed, flushed, full, failed over: `TestWhatWasAnsweredSurvivesAKilledServer`, `TestAServerIsFlushedUnderLoad`,
//     `TestAFullServerTakesNothingMoreAndCanBeDrained`, `TestAServerThatCanNotSaveIsFullAndAnswersNothingWrong`,
//     `TestAServerOfAClusterFailsOver`, `TestAServerOfAClusterThatIsAwayCostsTheOthersNothing`
//   - lost records of topics: `TestTheRecordsOfTheTopicsAreLost`, `TestTheRecordsAreLostBetweenTwoSteps`,
//     `TestTheRecordsAreLostOverAndOverWhileATopicGrowsUnderLoad`, `TestTheRecordsAreLostWhileATopicIsMadeAndDropped`,
//     `TestTheServerOfTheRecordsIsRestoredEmpty`, `TestTheHashLosesItsLastChange`, `TestAServerComesBackWithACopyOfBefore`,
//     `TestARecordInTheFewerCopiesDoesNotWinLater`, `TestATopicIsNotMissingIfMostCopiesAreSilent`
//   - the index full, killed, stopped: `TestWhatIsDueRunsWhileTheIndexIsFull`, `TestWhatIsDueRunsWhileTheIndexIsAway`
//   - PostgreSQL crashes or takes no writes: `TestAServerThatCrashesUnderLoadLosesNothing`,
//     `TestAStandbyIsRefusedUntilItIsPromoted`, `TestAServerThatBecomesReadOnlySaysSo`
//   - hostile requests: `TestCrookedPathsAreRefused`, `TestALongListCostsNoMoreThanItsBody`, `TestLongBodiesAtTheSameTime`,
//     `TestTasksMakeNoMoreTopicsThanThereMayBe`, `TestManyNewTopicsAreLookedAtTogether`
//   - an older copy, lost commits: `TestNumbersThatWereLostAreNotGivenAgain`, `TestNoNumberIsGivenTwiceThoughCommitsAreLost`
//   - SQLite's disk is full: `TestAFullDiskTakesNoTasksAndFinishesThoseThatThereAre`,
//     `TestAFullDiskIsOpenedAndGoesOnByItself`
//   - one master or shard away: `TestAServerOfAClusterThatIsAwayHoldsUpNoCallOfTheOthers`,
//     `TestAServerOfAClusterThatHangsMakesNoTaskOfTheOthersLate`, `TestAServerThatFailsIsNoFailureOfTheOthers`,
//     `TestAShardThatIsAwayHoldsUpNoCallOfTheOthers`, `TestAShardThatHangsMakesNoTaskOfTheOthersLate`
//   - one master or shard slow: `TestAServerOfAClusterThatStopsForMomentsLosesNoLease`,
//     `TestAServerFartherAwayThanTheOthersHasItsTurn`, `TestOutcomesThatHangHoldUpNoOtherShard`,
//     `TestAPullIsNotLateWhileAShardHangs`, `TestEachTaskRunsOnceWhateverShardsDo`
//   - a node hangs, and sends heartbeats: `TestWhatANodeThatHangsHasIsRunByAnother`, enginetest: `Late`
//   - a stopped node beside sums: `TestTheSumsOfThreeProcessesOfWhichOneIsStopped`
//   - two processes of one name: `TestTwoProcessesWithOneNameAreTold`, `TestTwoNodesOfOneNameAreTold`,
//     `TestARestartUnderTheSameNameIsNoDuplicate`, `TestTwoProcessesOfOneNameAreTold`, enginetest: `Members`
//   - a stalled store: `TestReadyAgainSoonAfterAStallOfTheStore`
//   - endless load: enginetest: `DeadLetters`; `TestEndedTasksDoNotFillAServer`, `TestTheLogIsDeletedAsLongAsLoadLasts`
package together
