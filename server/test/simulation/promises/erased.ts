import { isDeleting, isSuppressing } from '../../../src/model/regulation.ts';
import { SECOND } from '../../../src/model/time.ts';
import type { NewRegulation, StoredRegulation } from '../../../src/ports/regulations.ts';
import { FAIR } from '../world-store.ts';
import type { PromiseFamily } from './promise.ts';

/** Steps of a regulation that come after everything of its users is gone. */
const AFTER_ERASURE = new Set(['notify', 'await', 'finish', 'clean', 'done']);

/** Time that all nodes get to know of a suppression, from when nothing is wrong any more. */
const KNOWN_WITHIN = 5 * SECOND;

/** A stored suppression is in force, also where whoever asked for it has heard of an error. */
export const suppressed: PromiseFamily = {
  name: 'suppressed',
  headings: ['Suppression'],
  watch: (world) => {
    /** By user: when their suppression was stored. */
    const since = new Map<string, number>();
    return {
      applied({ operation, args }, { stored }) {
        if (operation === 'create') {
          const { type, userIds } = args[0] as NewRegulation;
          for (const user of userIds) {
            if (type === 'UNSUPPRESS') since.delete(user);
            else if (isSuppressing(type) && !since.has(user)) since.set(user, world.kernel.now);
          }
        }
        const { death, ready, still, store, lostLease } = world.troubles;
        const quietSince = Math.max(death, ready, still, store, lostLease);
        for (const { id, user, calledAt = 0 } of stored) {
          const at = since.get(user ?? '');
          if (at !== undefined && calledAt > Math.max(at, quietSince) + KNOWN_WITHIN)
            world.fail('suppressed is not stored', `${id} of ${user}, who is suppressed, is stored`);
        }
      },
    };
  },
};

/**
 * A deletion goes on within this while nothing is wrong: requests may take seconds, and other nodes are asked
 * every second whether theirs have ended.
 */
const GOES_ON_WITHIN = { alone: 5 * SECOND, amongOthers: 9 * SECOND };
/** Time without any trouble, before a deletion has to go on. */
const QUIET = 15 * SECOND;

/** A deletion does not wait for what is never over, such as a moment without any request. */
export const goesOn: PromiseFamily = {
  name: 'goes on',
  headings: ['Deletion'],
  watch: (world) => {
    /** By regulation: when it came to its step. */
    const since = new Map<string, number>();
    let slowAt = 0;
    const look = () => {
      world.kernel.later(SECOND, 'look whether deletions go on', look);
      const { now } = world.kernel;
      if (world.store.weather.latency > FAIR.latency) slowAt = now;
      const { death, ready, still, store, lostLease } = world.troubles;
      const endpoints = [...world.network.endpoints.values()].map(({ badUntil }) => badUntil);
      const troubled = Math.max(death, ready, still, store, lostLease, slowAt, ...endpoints);
      const [first] = [...world.store.contents.regulations.values()].filter(({ step }) => step !== 'done');
      if (first === undefined || first.step === 'await') return;
      if (world.nodes.some(({ isReady }) => !isReady)) return;
      const at = Math.max(since.get(first.id) ?? now, troubled + QUIET);
      const { alone, amongOthers } = GOES_ON_WITHIN;
      if (now - at > (world.nodes.length === 1 ? alone : amongOthers))
        world.fail(
          'deletions go on',
          `${first.id} stands at ${first.step} for ${Math.round((now - at) / SECOND)} s`,
        );
    };
    world.kernel.later(SECOND, 'look whether deletions go on', look);
    return {
      applied({ operation }) {
        if (operation !== 'create' && operation !== 'advance') return;
        for (const { id, step } of world.store.contents.regulations.values())
          if (!since.has(`${id} ${step}`))
            since.set(`${id} ${step}`, world.kernel.now).set(id, world.kernel.now);
      },
    };
  },
};

/** After a deletion has come to its notifications, nothing of the user is sent or stored. */
export const erased: PromiseFamily = {
  name: 'not ever',
  headings: ['Deletion', 'Suppression', 'Delete notification'],
  watch: (world) => {
    /** Positions of erased events whose deletion has gone on. */
    const gone = new Set<number>();
    /** By regulation: whom it is about. */
    const subjects = new Map<string, readonly string[]>();
    /** Users who are deleted and suppressed, by what the store has of them. */
    const users = new Set<string>();
    /** By user: the regulation that lifted a suppression of theirs last. */
    const lifted = new Map<string, number>();
    const noteLifted = ({ type, userIds }: NewRegulation, { number }: StoredRegulation) => {
      if (type !== 'UNSUPPRESS') return;
      for (const user of userIds) {
        users.delete(user);
        lifted.set(user, number);
      }
    };
    return {
      applied({ operation, args, answer }, { stored }) {
        if (operation === 'create') noteLifted(args[0] as NewRegulation, answer as StoredRegulation);
        for (const { id, user } of stored)
          if (user !== undefined && users.has(user))
            world.fail('deleted is not stored', `${id} of ${user} is stored after the deletion was finished`);
        const { regulations, regulationSubjects, events } = world.store.contents;
        if (operation !== 'advance') return;
        const { id: regulation, number, type, step } = regulations.get(args[0] as string)!;
        if (!isDeleting(type) || !AFTER_ERASURE.has(step)) return;
        for (const { position, isErased } of world.book.byPosition.values())
          if (isErased) gone.add(position!);
        if (!isSuppressing(type)) return;
        const known = regulationSubjects.get(regulation)?.flatMap(({ userId }) => userId ?? []);
        if (known !== undefined) subjects.set(regulation, known);
        const own = (subjects.get(regulation) ?? []).filter((user) => (lifted.get(user) ?? 0) < number);
        for (const user of own) users.add(user);
        if (step !== 'done') return;
        const later = [...regulations.values()].filter((one) => one.number > number).map(({ id }) => id);
        for (const { messageId, userId } of events.values()) {
          // The notifications of a later deletion of the same user are that one's.
          const isOfLater = later.some((one) => messageId.startsWith(`del_${one}_`));
          if (userId !== undefined && own.includes(userId) && !isOfLater)
            world.fail('deleted is gone', `${messageId} of ${userId} is stored at the end of ${regulation}`);
        }
      },
      sending({ known, id, endpoint }) {
        if (known?.position !== undefined && gone.has(known.position))
          world.fail('erased is not sent', `${id} is sent to ${endpoint.url} after its erasure was finished`);
      },
      ended() {
        const { regulations, events } = world.store.contents;
        for (const { id, step } of regulations.values())
          if (step !== 'done') return world.fail('deletions end', `${id} stands at ${step}`);
        for (const { messageId, userId } of events.values())
          if (userId !== undefined && users.has(userId))
            return world.fail('deleted is gone', `${messageId} of ${userId} is stored at the end`);
      },
    };
  },
};
