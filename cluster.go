package rratelimiter

import (
	"fmt"
	"strings"
)

// crcTable is CRC-16/XMODEM, polynomial 0x1021, by byte: what Redis Cluster hashes keys with.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()

// slot gives the hash slot of a key on a Redis Cluster: of its hash tag, the text between the first "{" and the
// first "}" behind it, where that is not empty, else of the whole key.
func slot(key string) uint16 {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			key = key[open+1 : open+1+length]
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return crc % 16384
}

// checkSlots says whether one script may name all the keys on a cluster. The keys of an ordinary name always share
// a slot; those of a name with an unusual brace may not, and there Redisson fails too.
func checkSlots(all ...string) error {
	want := slot(all[0])
	for _, key := range all[1:] {
		if got := slot(key); got != want {
			return fmt.Errorf("%w: %q is in slot %d, %q in slot %d; give names without braces, or with one hash tag that is not empty, the same in both names of a rename or copy",
				ErrCrossSlot, all[0], want, key, got)
		}
	}
	return nil
}
