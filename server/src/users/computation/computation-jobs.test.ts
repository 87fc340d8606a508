import { describe, expect, it } from 'vitest';
import type { AudienceDefinition, Condition } from '../../model/definition.ts';
import {
  afterEvents,
  afterWalk,
  awaitingWalk,
  type ComputationRecord,
  isSynced,
  NO_COMPUTATIONS,
  nextPass,
  planComputations,
  progressOf,
  startWalk,
  withHearing,
} from './computation-jobs.ts';
import { askingOf, ConnectionNews, movedIn } from './connection-news.ts';

const BOUNDS = { first: 100, end: 300 };

/** An audience whose only slot has the key `<event>`. */
function audience(id: number, event: string, changes: Partial<AudienceDefinition> = {}): AudienceDefinition {
  const definition: Condition = {
    op: '>=',
    value: { op: 'event', type: 'track', name: event, reduce: { op: 'count' } },
    to: 1,
  };
  return {
    ...{ id, version: 1, kind: 'audience', name: `a${id}`, key: `a${id}`, text: event, definition },
    ...{ destinations: ['crm'], enabled: true, includeAnonymous: false },
    ...changes,
  };
}

function plan(
  record: ComputationRecord,
  wanted: readonly AudienceDefinition[],
  position = 200,
  hearing: readonly string[] = ['crm', 'erp'],
): ComputationRecord {
  const slotKeysOf = ({ text }: { readonly text: string }) => (text === '' ? [] : [text]);
  return planComputations(record, wanted, {
    position,
    bounds: BOUNDS,
    oldestAt: 7,
    hearing,
    slotKeysOf,
  });
}

/** The record when all jobs are done. */
function settled(record: ComputationRecord): ComputationRecord {
  let now = record;
  while (now.jobs.length > 0) {
    const pass = nextPass(now, BOUNDS.end);
    if (pass === 'events') now = afterEvents(now, now.jobs[0]!.born);
    else now = now.jobs[0]!.walkedTo < 0 ? startWalk(now) : afterWalk(now, undefined);
  }
  return now;
}

describe('a new definition', () => {
  it('that was in force before another one is counted anew: its slot has missed events', () => {
    const first = settled(plan(NO_COMPUTATIONS, [audience(1, 'Order')]));
    const second = settled(plan(first, [audience(1, 'Visit', { version: 2 })]));
    const third = plan(second, [audience(1, 'Order', { version: 3 })]);
    expect(third.slots).toEqual({ Visit: 2, Order: 3 });
    expect(third.jobs).toMatchObject([{ slots: [3], from: 100, born: 200 }]);
  });

  it('gets the stored events before its birth, comes into force, and is told to every member', () => {
    const record = plan(NO_COMPUTATIONS, [audience(1, 'Order')]);
    expect(record).toMatchObject({ active: [], slots: { Order: 1 }, eventsSince: { 1: 7 } });
    expect(record.jobs).toMatchObject([{ slots: [1], from: 100, born: 200, next: 100, liveTo: 300 }]);
    expect(nextPass(record, 200)).toBe('events');
    expect(isSynced(record, 1, 5)).toBe(false);
    expect(progressOf(record, 1, 10)).toEqual({ state: 'computing', progress: 0 });

    const added = afterEvents(record, 200);
    expect(nextPass(added, 299)).toBeUndefined();
    expect(nextPass(added, 300)).toBe('walk');

    const walking = afterWalk(startWalk(added), 5);
    expect(walking.active).toMatchObject([{ id: 1 }]);
    expect(isSynced(walking, 1, 5)).toBe(true);
    expect(isSynced(walking, 1, 6)).toBe(false);
    expect(progressOf(walking, 1, 10)).toEqual({ state: 'computing', progress: 0.75 });

    const done = afterWalk(walking, undefined);
    expect(isSynced(done, 1, 6)).toBe(true);
    expect(nextPass(done, 300)).toBeUndefined();
    expect(progressOf(done, 1, 10)).toBeUndefined();
  });

  it('that needs no events of its own is walked at once', () => {
    const live = settled(plan(NO_COMPUTATIONS, [audience(1, 'Order')]));
    const record = plan(live, [audience(1, 'Order'), audience(2, 'Order')], 300);
    expect(record.jobs).toMatchObject([{ slots: [], targets: [{ id: 2, kind: 'new' }] }]);
    expect(nextPass(record, 300)).toBe('walk');
  });

  it('waits for the job before it, and one that is taken back leaves no job', () => {
    const first = plan(NO_COMPUTATIONS, [audience(1, 'Order')]);
    const both = plan(first, [audience(1, 'Order'), audience(2, 'View')]);
    expect(both.jobs.map(({ slots }) => slots)).toEqual([[1], [2]]);
    expect(progressOf(both, 2, 10)).toEqual({ state: 'preparing', progress: 0 });
    expect(plan(both, [audience(2, 'View')]).jobs.map(({ slots }) => slots)).toEqual([[2]]);
    expect(plan(both, [])).toMatchObject({ jobs: [], slots: {}, nextSlot: 3 });
  });

  it('whose slot another one has begun to fill keeps that work alive', () => {
    const first = plan(NO_COMPUTATIONS, [audience(1, 'Order')]);
    const both = plan(first, [audience(1, 'Order'), audience(2, 'Order')]);
    const left = plan(both, [audience(2, 'Order')]);
    expect(left.jobs).toMatchObject([
      { slots: [1], targets: [] },
      { slots: [], targets: [{ id: 2 }] },
    ]);
  });

  it('never gets the number of a slot that was given up', () => {
    const gone = plan(settled(plan(NO_COMPUTATIONS, [audience(1, 'Order')])), []);
    expect(plan(gone, [audience(1, 'Order')]).slots).toEqual({ Order: 2 });
  });
});

describe('a changed computation', () => {
  const live = settled(plan(NO_COMPUTATIONS, [audience(1, 'Order'), audience(2, 'View')]));

  it('goes on as it was until the new definition is computed, and then tells the differences', () => {
    const changed = audience(1, 'Refund', { version: 2, destinations: ['crm', 'erp'] });
    const record = plan(live, [changed, audience(2, 'View')]);
    expect(record.active[0]).toMatchObject({ version: 2, text: 'Order', destinations: ['crm', 'erp'] });
    expect(isSynced(record, 1, 5)).toBe(true);
    expect(record.slots).toEqual({ Order: 1, View: 2, Refund: 3 });
    const walking = startWalk(afterEvents(record, 200));
    expect(walking.active.find(({ id }) => id === 1)).toMatchObject({ text: 'Refund' });
    expect(isSynced(walking, 1, 5)).toBe(false);
    expect(walking.jobs[0]!.targets).toEqual([{ id: 1, kind: 'edited', only: ['erp'] }]);
  });

  it('that gets a destination, or is enabled again, is told once more', () => {
    const off = plan(live, [audience(1, 'Order', { enabled: false }), audience(2, 'View')]);
    expect(off.jobs).toEqual([]);
    const on = plan(off, [audience(1, 'Order'), audience(2, 'View', { destinations: ['erp', 'crm'] })]);
    expect(on.jobs).toMatchObject([
      {
        slots: [],
        targets: [
          { id: 1, kind: 'enabled' },
          { id: 2, kind: 'destinations', only: ['erp'] },
        ],
      },
    ]);
    expect(isSynced(on, 1, 5)).toBe(false);
    expect(isSynced(on, 2, 5)).toBe(true);
  });

  it('that is disabled or enabled makes uncertain what is on its way to its destinations', () => {
    const off = plan({ ...live, moved: {} }, [audience(1, 'Order', { enabled: false }), audience(2, 'View')]);
    expect(off.moved).toEqual({ 1: ['crm'] });
    const on = plan({ ...off, moved: {} }, [audience(1, 'Order'), audience(2, 'View')]);
    expect(on.moved).toEqual({ 1: ['crm'] });
    const [before, after] = [[audience(1, 'Order')], [audience(1, 'Order', { enabled: false })]];
    expect([movedIn(before, after), movedIn(after, after)]).toEqual([{ 1: ['crm'] }, {}]);
  });

  it('that is written in another way, or not changed at all, makes no work', () => {
    expect(plan(live, [audience(1, 'Order', { text: 'Order' }), audience(2, 'View')]).jobs).toEqual([]);
  });

  it('that is removed is out of force at once', () => {
    expect(plan(live, [audience(2, 'View')])).toMatchObject({ active: [{ id: 2 }], jobs: [] });
  });
});

describe('a destination', () => {
  const definitions = [audience(1, 'Order', { destinations: ['crm', 'erp'] }), audience(2, 'View')];
  const live = { ...settled(plan(NO_COMPUTATIONS, definitions)), switched: [] };

  it('that hears again is told what it missed, by a walk for each definition that it is connected to', () => {
    const deaf = plan(live, definitions, 200, ['crm']);
    expect(deaf).toMatchObject({ jobs: [], hearing: ['crm'], switched: ['erp'] });
    const again = plan({ ...deaf, switched: [] }, definitions);
    expect(again.jobs).toMatchObject([{ targets: [{ id: 1, kind: 'missed' }], slots: [] }]);
    expect(isSynced(again, 1, 5)).toBe(true);
    expect(again.switched).toEqual(['erp']);
  });

  it('that asks for other consent is told what it may hear now, also across a restart and between two slices', () => {
    const asking = (categories: string[], requiredSources: number[] = []) =>
      askingOf({ asking: [['erp', categories]], requiredSources });
    const terms = { position: 200, bounds: BOUNDS, hearing: ['crm', 'erp'], slotKeysOf: () => [] };
    const asked = planComputations(live, definitions, { ...terms, asking: asking(['Ads']) });
    const missed = [{ targets: [{ id: 1, kind: 'missed' }], slots: [] }];
    expect(asked).toMatchObject({ asking: asking(['Ads']), switched: ['erp'], jobs: missed });
    const calm = { ...asked, switched: [], jobs: [] };
    expect(planComputations(calm, definitions, { ...terms, asking: asking(['Ads']) }).jobs).toEqual([]);
    for (const other of [asking(['Stats']), asking(['Ads'], [7]), []])
      expect(planComputations(calm, definitions, { ...terms, asking: other }).jobs).toMatchObject(missed);
    const news = new ConnectionNews();
    const settings = { hearing: ['erp'], computations: definitions };
    const consent = { asking: [['erp', ['Ads']]], requiredSources: [] } as const;
    news.note(settings, { ...settings, consent });
    news.note({ ...settings, consent }, settings);
    expect(news.terms.switched).toEqual(['erp']);
  });

  it('that is new is told nothing else of a profile before the walk has come to it', () => {
    const added = plan(live, [definitions[0]!, audience(2, 'View', { destinations: ['crm', 'erp'] })]);
    expect(awaitingWalk(added, 2, 5).fresh).toEqual(['erp']);
    expect(awaitingWalk(added, 1, 5).fresh).toEqual([]);
    const walking = afterWalk(startWalk(added), 5);
    expect([awaitingWalk(walking, 2, 5).fresh, awaitingWalk(walking, 2, 6).fresh]).toEqual([[], ['erp']]);
  });

  describe('that is named again', () => {
    const both = ['crm', 'erp'];
    const named = (...destinations: string[]) => [definitions[0]!, audience(2, 'View', { destinations })];
    const connected = { ...settled(plan(live, named(...both))), moved: {} };
    const without = plan(connected, named('crm'));

    it('gets every member, and what it knows is noted until then', () => {
      expect(without).toMatchObject({ jobs: [], former: { 2: ['erp'] }, moved: { 2: ['erp'] } });
      const again = plan({ ...without, moved: {} }, named(...both));
      expect(again).toMatchObject({ former: {}, moved: { 2: ['erp'] } });
      expect(again.jobs.map(({ targets }) => targets)).toEqual([
        [{ id: 2, kind: 'destinations', back: ['erp'] }],
      ]);
      expect([awaitingWalk(again, 2, 5).back, awaitingWalk(again, 2, 5).fresh]).toEqual([['erp'], []]);
    });

    it('between two slices, gets them too', () => {
      const terms = { position: 200, bounds: BOUNDS, hearing: both, slotKeysOf: () => [] };
      const again = planComputations(connected, named(...both), { ...terms, moved: { 2: ['erp'] } });
      expect(again.jobs.map(({ targets }) => targets)).toEqual([
        [{ id: 2, kind: 'destinations', back: ['erp'] }],
      ]);
    });

    it('is new when it was removed meanwhile, and when ten others were taken away since', () => {
      const terms = { position: 200, bounds: BOUNDS, hearing: both, slotKeysOf: () => [] };
      const removed = planComputations(without, named('crm'), { ...terms, destinations: ['crm'] });
      expect(removed.former).toEqual({});
      const others = Array.from({ length: 10 }, (_, nth) => `other-${nth}`);
      const many = plan(plan(without, named('crm', ...others)), named('crm'));
      expect(many.former).toEqual({ 2: others });
      expect(plan(many, named(...both)).jobs.at(-1)!.targets).toEqual([
        { id: 2, kind: 'destinations', only: ['erp'] },
      ]);
    });
  });

  it('that is added while all profiles are made anew is told every member too, and one that is taken away is remembered', () => {
    const terms = { position: 200, bounds: BOUNDS, hearing: ['crm', 'erp'], slotKeysOf: () => [] };
    const rebuilt = new Map([[2, ['crm']]]);
    const begun = planComputations(NO_COMPUTATIONS, [audience(2, 'View')], { ...terms, rebuilt });
    const named = (...destinations: string[]) => [audience(2, 'View', { destinations })];
    const added = planComputations(begun, named('crm', 'erp'), { ...terms, rebuilt });
    expect(added.jobs.map(({ targets }) => targets)).toEqual([[{ id: 2, kind: 'rebuilt', only: ['erp'] }]]);
    const moved = planComputations(added, named('erp'), { ...terms, rebuilt });
    expect(moved).toMatchObject({ former: { 2: ['crm'] }, jobs: [{ targets: [{ only: ['erp'] }] }] });
    const edited = [audience(2, 'Visit', { version: 2, destinations: ['erp', 'crm'] })];
    const last = planComputations(moved, edited, { ...terms, rebuilt });
    expect(last.jobs.map(({ targets }) => targets)).toEqual([
      [{ id: 2, kind: 'rebuilt', only: ['erp'], back: ['crm'] }],
    ]);
  });

  it('that is added while another definition is prepared is told every member too', () => {
    const edited = plan(live, [definitions[0]!, audience(2, 'Visit', { version: 2 })]);
    const both = plan(edited, [
      definitions[0]!,
      audience(2, 'Visit', { version: 2, destinations: ['crm', 'erp'] }),
    ]);
    expect(both.jobs.map(({ targets }) => targets)).toEqual([
      [{ id: 2, kind: 'edited' }],
      [{ id: 2, kind: 'destinations', only: ['erp'] }],
    ]);
  });

  it('that heard nothing when an earlier program stopped is told every member when it hears', () => {
    const { hearing: _, switched: __, unknown: ___, ...stored } = live;
    const upgraded = plan(withHearing(stored, ['crm']), definitions, 200, ['crm']);
    expect(upgraded).toMatchObject({ jobs: [], unknown: ['erp'], switched: [] });
    const again = plan(upgraded, definitions);
    expect(again.jobs).toMatchObject([{ targets: [{ id: 1, kind: 'destinations', only: ['erp'] }] }]);
    expect(again.unknown).toEqual([]);
  });
});
