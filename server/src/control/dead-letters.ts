import * as z from 'zod';
import { type Destination, destinationOfLane, lanesOf } from '../model/destination.ts';
import type { Clock } from '../ports/clock.ts';
import type { DeadLetters, DeadQuery } from '../ports/dead-letters.ts';
import type { SettingsSnapshot } from '../ports/settings.ts';
import { destinationNamed } from './destination-named.ts';
import { time } from './lists.ts';
import { type Operation, operation } from './operation.ts';
import { Problem } from './problem.ts';

export interface DeadLetterTools {
  readonly deadLetters: DeadLetters;
  readonly settings: { now(): SettingsSnapshot };
  readonly clock: Clock;
  readonly newId: () => string;
  /** Something of a lane waits on disk. */
  readonly parked: (lane: number, at: number) => void;
}

const MOST = 500;

const filter = {
  reason: z.string().min(1).exactOptional(),
  from: time.exactOptional(),
  to: time.exactOptional(),
};

/** As `trace` prints it: the event's position and the lane. */
const ID = /^(\d{1,15})-(\d{1,15})$/;
const deliveryId = z
  .string()
  .regex(ID, 'must be the id of a delivery, as GET /api/v1/deliveries and millrace trace --json give it');

const wish = z.strictObject({
  destination: z.string(),
  ids: z.array(deliveryId).min(1).max(MOST).exactOptional(),
  ...filter,
  dryRun: z.boolean().default(false),
});

/** contract.md section 4, `redeliveries`. */
export function deadLetterOperations(tools: DeadLetterTools): Operation[] {
  const { settings, deadLetters, clock } = tools;
  return [
    operation({
      ...{ method: 'POST', path: 'redeliveries', role: 'editor' },
      summary: 'Owes dead letters once more, with a new retry window',
      body: wish,
      answer: z.object({ id: z.string().exactOptional(), count: z.int() }),
      problems: ['unknown_name'],
      run: async ({ body: { destination: name, ids, dryRun, ...query } }) => {
        const destination = destinationNamed(name, settings.now());
        const only = ids?.map((id) => deliveryOf(id, destination));
        const dead: DeadQuery = {
          ...{ ...query, destinations: lanesIn(destination) },
          ...(only === undefined ? {} : { only }),
        };
        if (dryRun) return { count: await countOf(dead, deadLetters) };
        const now = clock.monotonic();
        const count = await revive(dead, now, deadLetters);
        if (count > 0) for (const lane of lanesIn(destination)) tools.parked(lane, now);
        return { id: tools.newId(), count };
      },
    }),
  ];
}

/** Every lane it may ever have had: one that the settings have no longer may have dead letters all the same. */
function lanesIn(destination: Destination): number[] {
  const endpoints = Array.from({ length: 5 }, () => ({ url: '', headers: {} }));
  return lanesOf({ ...destination, settings: { ...destination.settings, endpoints, success: 'each' } }).map(
    ({ id }) => id,
  );
}

function deliveryOf(
  id: string,
  { id: destination, name }: Destination,
): { destination: number; position: number } {
  const [, position, lane] = ID.exec(id)!;
  if (destinationOfLane(Number(lane)) !== destination) {
    const message = `is a delivery of another destination than ${JSON.stringify(name)}`;
    throw new Problem('invalid_parameters', { errors: [{ path: `body.ids ${id}`, message }] });
  }
  return { destination: Number(lane), position: Number(position) };
}

async function revive(query: DeadQuery, now: number, deadLetters: DeadLetters): Promise<number> {
  let count = 0;
  let from: string | undefined;
  do {
    const slice = await deadLetters.revive({ query, now, ...(from === undefined ? {} : { from }) });
    count += slice.count;
    from = slice.next;
  } while (from !== undefined);
  return count;
}

async function countOf(query: DeadQuery, deadLetters: DeadLetters): Promise<number> {
  let count = 0;
  let from: string | undefined;
  do {
    const slice = await deadLetters.count(query, from);
    count += slice.count;
    from = slice.next;
  } while (from !== undefined);
  return count;
}
