import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';

export type ImportedLine =
  /** The line is blank. */
  | { readonly kind: 'empty' }
  | { readonly kind: 'call'; readonly call: Readonly<Record<string, unknown>> }
  | { readonly kind: 'bad'; readonly reason: string; readonly message: string };

const IDS: readonly string[] = ['userId', 'anonymousId', 'previousId', 'groupId', 'messageId'];

/**
 * Fields that a server sets anew: one server's export is another's import. A write key is a credential and no
 * data.
 */
const OF_THE_SERVER = ['channel', 'originalTimestamp', 'receivedAt', 'sentAt', 'version', 'writeKey'];

/**
 * Parses one line of a file of calls into a call for the client library. Pure: file name, position and line
 * determine the call and its messageId.
 */
export function callIn(bytes: Buffer, at: { readonly file: string; readonly line: number }): ImportedLine {
  if (!isUtf8(bytes)) return bad('not_utf8', 'the line is not UTF-8');
  let text = bytes.toString('utf8');
  if (at.line === 1 && text.startsWith('\uFEFF')) text = text.slice(1);
  if (text.trim() === '') return { kind: 'empty' };
  let call: Record<string, unknown>;
  try {
    const value = parsed(text);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      return bad('not_an_object', 'the line is JSON, but no object');
    }
    call = value as Record<string, unknown>;
  } catch (error) {
    return bad('not_json', error instanceof Error ? error.message : String(error));
  }
  // The client's own time, for libraries that send no other.
  call['timestamp'] ??= call['originalTimestamp'];
  if (call['timestamp'] === undefined) delete call['timestamp'];
  for (const field of OF_THE_SERVER) delete call[field];
  if (typeof call['messageId'] === 'number') call['messageId'] = String(call['messageId']);
  call['messageId'] = call['messageId'] || messageIdOf(bytes, at);
  return { kind: 'call', call };
}

/**
 * The id of a call without one. It depends on the content and the position only: after a crash, the line is
 * sent with the same id, and the server drops the duplicate. The line number is a part of it, because two
 * equal lines are two calls. The file name is one too, because the files of two days may begin with the same
 * line.
 */
function messageIdOf(
  bytes: Buffer,
  { file, line }: { readonly file: string; readonly line: number },
): string {
  const hash = createHash('sha256').update(`${file}\n${line}\n`).update(bytes);
  return `import-${hash.digest('hex').slice(0, 32)}`;
}

/**
 * Parses JSON and keeps all digits of ids. A number beyond 2^53 would be rounded, and two users would become
 * one.
 */
function parsed(text: string): unknown {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  const written = new Map<unknown, Map<string, string>>();
  const value: unknown = JSON.parse(
    text,
    function (this: unknown, key, inner: unknown, ...[context]: { source?: string }[]) {
      const digits = context?.source;
      if (typeof inner === 'number' && IDS.includes(key) && digits !== undefined && /^-?\d+$/.test(digits)) {
        written.set(this, (written.get(this) ?? new Map<string, string>()).set(key, digits));
      }
      return inner;
    },
  );
  const ids = written.get(value);
  return ids === undefined ? value : { ...(value as object), ...Object.fromEntries(ids) };
}

function bad(reason: string, message: string): ImportedLine {
  return { kind: 'bad', reason, message };
}
