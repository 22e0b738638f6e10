-- beat(rules, incarnation): extends a node's lease. Answers with the node's term.
local us, _, _, nodeLease = clock(), struct.unpack('>I4I4I4', ARGV[1])
local term = extendNode(us, nodeLease, ARGV[2], (begin(us, ARGV[1])))
return {term}
