import { crc32 } from 'node:zlib';
import type { IdentityKey, ProfileId } from '../../../ports/profile-store.ts';
import { checksumOf } from '../../encoding/checksum.ts';

/** The owner of an identity and its checksum are one number, so that a row of the largest table stays at some 16 bytes. */
const OWNER_SUMS = 4096;

export function encodeOwner(key: IdentityKey, profile: ProfileId): number {
  return profile * OWNER_SUMS + ownerSum(key, profile);
}

/** Undefined when the checksum does not hold. */
export function decodeOwner(key: IdentityKey, owner: number): ProfileId | undefined {
  const profile = Math.floor(owner / OWNER_SUMS);
  return owner % OWNER_SUMS === ownerSum(key, profile) ? profile : undefined;
}

/** The profile in the column `owner`, in SQL. */
export const OWNER_PROFILE = `(owner / ${OWNER_SUMS})`;

const WORD = 2 ** 32;

/** Twelve bits that change with any bit of either number: the multiplication and the shifts of MurmurHash3's last step. */
function ownerSum(key: IdentityKey, profile: ProfileId): number {
  let sum = Math.imul(key % WORD, 0x9e3779b1) ^ Math.imul(key / WORD, 0x85ebca6b);
  sum = Math.imul(sum ^ (sum >>> 15) ^ (profile % WORD), 0xc2b2ae35) ^ Math.imul(profile / WORD, 0x27d4eb2f);
  sum = Math.imul(sum ^ (sum >>> 13), 0x85ebca6b);
  return (sum ^ (sum >>> 16)) & (OWNER_SUMS - 1);
}

/** The checksum of a row that is a text under some numbers. */
export function textSum(text: string, ...numbers: readonly number[]): number {
  return crc32(text, checksumOf(...numbers));
}
