// Package discovery tells every process who else is alive, through etcd.
//
// A process registers its instance under a lease and keeps it alive; others follow the
// members of a role, directly or through a gRPC resolver; live configuration is followed
// the same way. The layout in etcd:
//
//	/switchyard/instances/<role>/<id>   instance.v1.Instance, protobuf, under a lease
//	/switchyard/config/<model>/<name>   JSON; the name disagg holds the hand-off decision
//
// with the roles frontend, processor, decodeworker, prefillworker and planner.
//
// etcd is asked, not trusted with anyone's life: while it does not answer, the members
// known last stay. One that leaves without having said that it drains is a suspect: its
// health is asked for directly, and it goes when it does not answer.
//
// It does not choose among members and holds no connection to them beyond such a
// question. Nothing runs until a Run method is called; each waits for all it started. A
// gRPC resolver runs from Build to Close, as gRPC has it.
package discovery
