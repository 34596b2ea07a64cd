// Package tcp is the transport between workers of different hosts: an own protocol over
// TCP, with TLS where it is configured. Bytes go by writev and readv straight between the
// sockets and registered memory.
//
// It is not one-sided: bytes land only while the target runs. In return the target checks
// each frame against what it has granted before a byte of it is written, so that peers need
// not trust each other, and it can take a grant back and fence a peer off at any time.
//
// Without TLS a peer's name is its own claim. With it, both ends show certificates of the
// authorities that are configured, and the name in a hello must be covered by the certificate of
// each connection, as the name of the peer that was meant must be by that of who was reached.
// Among those who come in, grants hold whatever else a peer says.
//
// An agent's goroutines belong to its Run.
//
// # Links
//
// An agent listens; its address is in its metadata. Who adds it as a peer opens a link: one
// connection for notes, in both directions, and some for data, on which the side that added
// sends requests and the other answers. Two agents that add each other have two links. The
// connections of a link begin with
//
//	Hello    →  version, wanted name and incarnation, own metadata, attempt, connections, verify
//	Welcome  ←  metadata, nonce of 16 bytes, connections (at most those wanted), verify
//	Refusal  ←  instead: an error that keeps its identity
//	Join     →  version, nonce, index; on each data connection, answered by an empty Welcome
//
// in JSON, within 5 s. An attempt is 1 to 2⁵³, connections are 1 to 16, and names have at most
// 256 bytes; texts of a refusal are cut at 1 KiB. Who does not know the nonce cannot join. A hello with a later attempt
// ends the peer's earlier link: of a cut, one side may know long before the other. A peer
// that is fenced, wants another incarnation or has another KV format is refused.
//
// # Floods
//
// What anybody who reaches the port can bring about is bounded, in all and for each address (of
// IPv6 each /64): connections that have not said who they are, and links of peers that nobody
// here has met, as they were neither added nor allowed anything. Who comes is let in, and the oldest of
// the address that has too many or most gives way. So a peer that is known keeps its link, and one
// that connects is served beside a flood from elsewhere. One that shares its address with the
// flood has to say hello before that many others come.
//
// # Frames
//
// All numbers are little-endian. A frame is: payload length, 4 bytes; crc32c of type and
// payload, 4 bytes; type, 1 byte; payload. The payload has at most 64 KiB on the connection
// of notes, 16 KiB on the others. Types:
//
//	 1 hello, 2 welcome, 3 refusal, 16 join    as above
//	 4 note      the note itself
//	 5 goodbye   code, 1; text. The last frame of a side on each connection
//	17 write     transfer, 8; grant, 8; region, 1; flags, 1; runs, 2; bytes, 4; the runs;
//	             then, behind the frame, the bytes (1 to 1 MiB) and a trailer
//	18 read      as write, without bytes and trailer
//	19 data      transfer, 8; bytes, 4; flags, 1; zero, 3; then the bytes and a trailer
//	20 answer    transfer, 8; code, 1; text, up to 256
//	21 credit    notes, 4: how many more the peer may send
//	22 beat      empty; on each connection at least each second, or five times in Config.Silence
//
// A run names a part of one block: block, generation (if flag 2 is set), offset in the block and
// length, each a varint. There are at most 1,000 in a frame. Neighbours in memory are still
// runs of their own where a block ends. A trailer is: hash, 8 bytes (if flag 1 is set); code, 1
// byte; zero, 7. The hash covers the bytes of the frame in stretches of 256 KiB, the last one
// shorter: beginning with 0, hash = (rotl(hash, 27) xor XXH3-64(stretch)) · 0x9E3779B185EBCA87.
// A code that is not 0 says that the sender gave the frame up, and sent zeros to its end, as
// its memory was taken away.
//
// Requests are answered in their order on each connection: a write by an answer, a read by
// data, or by an answer if it is refused. At most 64 may be without an answer. There may
// be 32 notes for which the receiver's inbox had no room; then the sender needs credit. Codes:
//
//	0 done   1 gone   2 not granted   3 bad descriptor   4 checksum   5 fenced
//
// # What is proven
//
// The target looks at every run of a frame before it lets the first byte into its memory. A
// refused frame is skipped and answered, and the connection goes on; earlier frames of the same
// transfer may have landed. A frame whose head is damaged, lies about its size, or comes out of
// turn ends the link: what follows cannot be trusted. So does a hash that differs, after
// the transfer was told.
//
// Memory is used within the gates of the link, the grant and the region, which are entered
// for a single system call that does not wait. So Revoke and Fence have their proof at
// once, in the middle of a frame and of a living or frozen peer.
//
// A transfer is ErrAborted when each of its requests was answered, or was followed by the
// goodbye of its connection, or was never sent; a read also when the link is gone, as the
// memory is our own. A write whose requests were not answered when the link broke is
// ErrUnsettled: the bytes may still lie before the target, which writes them if it lives.
//
// What a transfer moves must not change meanwhile, on either side. A byte that changes between
// the hash and the writev is taken for damage: ErrChecksum, and the end of the link.
//
// A peer that sends nothing for Config.Silence, or takes nothing, or does not end a frame's
// head, counts as gone.
package tcp
