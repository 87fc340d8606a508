/** Commands to copy, for a POSIX shell. Text from clients must not be able to end its quotes. */

export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** A command that sends a first event. Without a key it has a placeholder. */
export function callExample(writeKey = 'WRITE_KEY', origin = location.origin): string {
  const body = '{"event":"Order Placed","userId":"u1","properties":{"total":9}}';
  return `curl -u ${shellQuoted(`${writeKey}:`)} ${origin}/v1/track -d ${shellQuoted(body)}`;
}

interface SentEvent {
  readonly type?: unknown;
}

/** Fields that the server writes into every event; a call that is sent again gets its own. */
const OF_THE_SERVER = ['messageId', 'receivedAt', 'sentAt', 'originalTimestamp', 'version', 'type'];

/**
 * A command that sends the same call as a new event: without its messageId, which would make it a duplicate.
 */
export function asCurl(event: SentEvent, writeKey = 'WRITE_KEY', origin = location.origin): string {
  const call = Object.fromEntries(Object.entries(event).filter(([key]) => !OF_THE_SERVER.includes(key)));
  const target = `${origin}/v1/${String(event.type)}`;
  return `curl -u ${shellQuoted(`${writeKey}:`)} ${target} -d ${shellQuoted(JSON.stringify(call))}`;
}
