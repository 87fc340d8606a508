import { expect, it } from 'vitest';
import { previewText, progressText, replayLine, type ShownReplay } from './replay-report.ts';

const replay: ShownReplay = {
  ...{ id: 'r-1', destination: 'lake', from: '', to: '', state: 'running' },
  ...{ count: 2000, bytes: 3 * 1024 * 1024, exact: true, expectedSeconds: 200 },
  ...{ replayed: 500, pending: 20, expectedEndAt: '2026-03-04T05:06:07Z' },
};

it('says how much there is, and whether that was counted', () => {
  expect(previewText(replay)).toBe('2,000 events, 3 MB, 3 min');
  expect(previewText({ ...replay, exact: false })).toBe('about 2,000 events, 3 MB, 3 min');
  expect(previewText({ ...replay, deliveries: 2000 })).toBe('2,000 events, 3 MB, 3 min');
  expect(previewText({ ...replay, deliveries: 4000 })).toBe('2,000 events (4,000 deliveries), 3 MB, 3 min');
  expect(previewText({ ...replay, count: 1 })).toBe('1 event, 3 MB, 3 min');
});

it('shows how far it has come and how long it will take, or what it waits for', () => {
  const now = Date.parse('2026-03-04T05:05:57Z');
  expect(progressText(replay, now)).toBe('[######------------------]  25 %  500 of 2,000 events  10 s left');
  expect(progressText({ ...replay, waiting: 'destination_paused' }, now)).toMatch(
    /events {2}waits: its destination is paused$/,
  );
});

it('never shows more than the whole, however wrong the estimate was', () => {
  expect(progressText({ ...replay, exact: false, replayed: 4000 }, 0)).toMatch(/^\[#{24}\] 100 %/);
  expect(progressText({ ...replay, count: 0, replayed: 0 }, 0)).toMatch(/^\[-{24}\] {3}0 %/);
});

it('tells a replay in a line, also when it has ended', () => {
  expect(replayLine(replay)).toBe(
    'r-1  running: 500 of 2,000 events to lake, 20 deliveries still to be made',
  );
  expect(replayLine({ ...replay, state: 'done', replayed: 2000, pending: 0 })).toBe(
    'r-1  done: 2,000 events to lake',
  );
  expect(replayLine({ ...replay, state: 'failed', reason: 'destination_removed', pending: 0 })).toBe(
    'r-1  failed (destination_removed): 500 of 2,000 events to lake',
  );
});
