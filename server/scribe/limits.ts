import { ACCOUNT, ACCOUNTS } from './accounts';

/** Calls a batch may have, bytes of one of them, and characters of a messageId. The program says so. */
export let mostCalls: i32 = 0;
export let largestItem: u32 = 0;
export let longestMessageId: usize = 0;

/** Where memory begins that is the program's, behind the accounts of so many calls and one more. */
export function limit(calls: i32, item: u32, messageId: usize): usize {
  mostCalls = calls;
  largestItem = item;
  longestMessageId = messageId;
  return ACCOUNTS + <usize>(calls + 1) * ACCOUNT;
}
