import { HashSet } from '../model/containers.ts';
import { isObject, type Json } from '../model/json.ts';
import { idText, LineIds } from '../model/line-ids.ts';
import type { JsonLine } from '../model/serialized-event.ts';
import type { SuppressionCheck } from '../ports/ingest.ts';
import type { IdHash, Regulations } from '../ports/regulations.ts';

/**
 * Tells who is suppressed, by 64-bit keyed hashes in memory: a million ids take 17 MB, and a call costs some
 * tenths of a microsecond. Two ids share a hash once in ten million million years of calls, so a hash is not
 * compared with the id, which may not be stored.
 *
 * A call with a userId counts for that user; its anonymousId is looked up only without a userId. The
 * previousId of an alias counts as either.
 */
export class SuppressionFilter implements SuppressionCheck {
  readonly #hashId: IdHash;
  readonly #ids = new LineIds();
  readonly #words = new Uint32Array(2);
  #table = new HashSet();

  constructor(hashId: IdHash) {
    this.#hashId = hashId;
  }

  get isEmpty(): boolean {
    return this.#table.size === 0;
  }

  /** Number of suppressed ids, those included that are joined to suppressed users. */
  get size(): number {
    return this.#table.size;
  }

  /** Replaces everything with the suppressions in the store. */
  async load({ visitSuppressed }: Pick<Regulations, 'visitSuppressed'>): Promise<void> {
    const table = new HashSet();
    await visitSuppressed((hashes) => {
      for (let at = 0; at < hashes.length; at += 2) table.add(hashes[at]!, hashes[at + 1]!);
    });
    this.#table = table;
  }

  /** Suppresses ids at once. */
  add(kind: 'user' | 'anonymous', ids: readonly string[]): void {
    for (const id of ids) {
      this.#hashId(kind, id, this.#words, 0);
      this.#table.add(this.#words[0]!, this.#words[1]!);
    }
  }

  suppresses({ bytes, from, to }: JsonLine): boolean {
    const ids = this.#ids;
    if (!ids.scan(bytes, from, to)) return this.names(JSON.parse(bytes.toString('utf8', from, to)) as Json);
    if (ids.isEscaped) return this.#suppressesTexts(bytes);
    const { userFrom, userTo, anonymousFrom, anonymousTo, previousFrom, previousTo } = ids;
    if (userTo > 0) {
      if (this.#has('user', { bytes, from: userFrom, to: userTo })) return true;
    } else if (anonymousTo > 0 && this.#has('anonymous', { bytes, from: anonymousFrom, to: anonymousTo }))
      return true;
    return previousTo > 0 && this.#hasEither({ bytes, from: previousFrom, to: previousTo });
  }

  names(call: Json): boolean {
    if (!isObject(call)) return false;
    const { userId, anonymousId, previousId } = call;
    const [user, anonymous, previous] = [userId, anonymousId, previousId].map(textOf);
    if (
      user !== undefined
        ? this.#has('user', user)
        : anonymous !== undefined && this.#has('anonymous', anonymous)
    )
      return true;
    return previous !== undefined && this.#hasEither(previous);
  }

  #suppressesTexts(bytes: Buffer): boolean {
    const { userFrom, userTo, anonymousFrom, anonymousTo, previousFrom, previousTo } = this.#ids;
    const text = (from: number, to: number) => (to === 0 ? null : idText(bytes, from, to));
    return this.names({
      userId: text(userFrom, userTo),
      anonymousId: text(anonymousFrom, anonymousTo),
      previousId: text(previousFrom, previousTo),
    });
  }

  #hasEither(id: Parameters<IdHash>[1]): boolean {
    return this.#has('user', id) || this.#has('anonymous', id);
  }

  #has(kind: 'user' | 'anonymous', id: Parameters<IdHash>[1]): boolean {
    this.#hashId(kind, id, this.#words, 0);
    return this.#table.has(this.#words[0]!, this.#words[1]!);
  }
}

/** An id as normalising reads it; undefined for none. Numbers beyond 2^53 are not told apart here. */
function textOf(value: Json | undefined): string | undefined {
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value !== '' ? value : undefined;
}
