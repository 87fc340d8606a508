import ipaddr from 'ipaddr.js';
import { mayAct, type Role } from '../model/role.ts';
import { MINUTE, type Monotonic, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { TokenRecord } from '../ports/settings.ts';
import { digestOf, isSame, tokenIn } from './bearer.ts';
import { Problem } from './problem.ts';

/** Who is asking. */
export interface Caller {
  /** Of the token; `admin` for the one of the configuration. */
  readonly name: string;
  readonly role: Role;
}

export interface SignInTools {
  /** Whoever has it may do everything. */
  readonly adminToken: string;
  readonly tokens: () => readonly TokenRecord[];
  readonly clock: Clock;
}

/** The name of the token of the configuration; no other token may have it. */
export const ADMIN = 'admin';

/** So many wrong tokens from one place, and it has to wait: guessing stays hopeless even where tokens are short. */
const FAILURES = 20;
const WAIT = MINUTE;

/** Places remembered; the one that has been silent longest is forgotten. */
const PLACES = 10_000;

/** Finds out who sends a request, and whether they may. contract.md section 4. */
export class SignIn {
  readonly #tools: SignInTools;
  readonly #admin: string;
  readonly #failures = new Map<string, { count: number; until: Monotonic }>();

  constructor(tools: SignInTools) {
    this.#tools = tools;
    this.#admin = digestOf(tools.adminToken);
  }

  /** Throws a `Problem` for whoever has no token, a wrong one, or one with too small a role. */
  caller(authorization: string | undefined, address: string, least: Role): Caller {
    const place = placeOf(address);
    this.#refuseGuessing(place);
    const candidate = tokenIn(authorization);
    if (candidate === undefined) throw new Problem('token_missing');
    const caller = this.#owner(candidate);
    if (caller === undefined) {
      this.#failed(place);
      throw new Problem('token_invalid');
    }
    if (!mayAct(caller.role, least)) {
      const hint = `This one has the role ${caller.role} and ${least} is needed; an admin can make another token.`;
      throw new Problem('role_too_low', { hint });
    }
    return caller;
  }

  /** Digests are compared in constant time, and all of them: how long it takes says nothing about any token. */
  #owner(candidate: string): Caller | undefined {
    const digest = digestOf(candidate);
    let owner: Caller | undefined = isSame(digest, this.#admin) ? { name: ADMIN, role: 'admin' } : undefined;
    for (const token of this.#tools.tokens()) {
      if (isSame(digest, token.digest)) owner ??= token;
    }
    return owner;
  }

  #refuseGuessing(place: string): void {
    const failures = this.#failures.get(place);
    const wait = (failures?.until ?? 0) - this.#tools.clock.monotonic();
    if (failures === undefined || wait <= 0 || failures.count < FAILURES) return;
    throw new Problem('too_many_failed_sign_ins', { retryAfter: Math.ceil(wait / SECOND) });
  }

  #failed(place: string): void {
    const now = this.#tools.clock.monotonic();
    const before = this.#failures.get(place);
    const count = before === undefined || before.until <= now ? 1 : before.count + 1;
    // Deleted first, so that the order of the map is that of the last failures.
    this.#failures.delete(place);
    this.#failures.set(place, { count, until: now + WAIT });
    if (this.#failures.size <= PLACES) return;
    const [oldest] = this.#failures.keys();
    if (oldest !== undefined) this.#failures.delete(oldest);
  }
}

/** An IPv4 address, or the 64 bits of an IPv6 one that a network has: whoever has one of these has them all. */
function placeOf(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  return parsed instanceof ipaddr.IPv6 ? parsed.parts.slice(0, 4).join(':') : parsed.toString();
}
