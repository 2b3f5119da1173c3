package redisx

import "strings"

// crcTable is CRC-16/XMODEM (polynomial 0x1021) by byte: the hash of Redis Cluster.
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

// Slot returns the hash slot of a key on a Redis Cluster: the hash of its tag.
func Slot(key string) uint16 {
	tag := Tag(key)
	var crc uint16
	for i := range len(tag) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^tag[i]]
	}
	return crc % 16384
}

// Tag returns the hash tag of a key: the text between the first "{" and the first "}" after it. If
// that is empty or missing, it is the whole key.
func Tag(key string) string {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if length := strings.IndexByte(key[open+1:], '}'); length > 0 {
			return key[open+1 : open+1+length]
		}
	}
	return key
}
