import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { serverNow } from '../../api/server-time.ts';
import { Button } from '../../ui/controls.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Failure, Notice } from '../../ui/empty-state.tsx';
import { Checks, TextField } from '../../ui/form-fields.tsx';
import { bytes, duration, exactNumber, plural } from '../../ui/format.ts';
import { toast } from '../../ui/toast.tsx';
import { CALL_TYPES, type CallType } from './form.ts';
import { type ReplayRequest, replayPreviewQuery, useReplay } from './queries.ts';
import { instantsOf, lastHour } from './replay-range.ts';

interface ReplayDialogProps {
  readonly name: string;
  readonly isPaused: boolean;
  readonly onClose: () => void;
}

/** Delivers the stored events of a range once more. It counts them first, and asks. */
export function ReplayDialog({ name, isPaused, onClose }: ReplayDialogProps) {
  const [range, setRange] = useState(() => lastHour(serverNow()));
  const [types, setTypes] = useState<readonly CallType[]>([]);
  const [rate, setRate] = useState('1000');
  const navigate = useNavigate();
  const replay = useReplay();
  const instants = instantsOf(range);
  const perSecond = Number(rate);
  const request: ReplayRequest | undefined =
    typeof instants === 'string' || !(perSecond >= 1)
      ? undefined
      : {
          destination: name,
          ...instants,
          rate: perSecond,
          ...(types.length === 0 ? {} : { types: [...types] }),
        };
  const preview = useQuery({
    ...replayPreviewQuery(request ?? { destination: name, from: '', to: '' }),
    enabled: request !== undefined,
  });
  const count = preview.data?.count ?? 0;
  const deliveries = preview.data?.deliveries ?? count;
  const begin = async (wanted: ReplayRequest): Promise<void> => {
    await replay.mutateAsync(wanted);
    toast(`The replay of ${plural(count, 'event')} to ${name} has begun.`);
    onClose();
    await navigate({ to: '/destinations/$name', params: { name }, search: { tab: 'replays' } });
  };
  return (
    <Dialog
      title={`Replay to ${name}`}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            kind="primary"
            disabled={request === undefined || count === 0 || replay.isPending}
            onClick={() => request !== undefined && void begin(request).catch(() => undefined)}
          >
            {count === 0 ? 'Replay' : `Replay ${plural(count, 'event')}`}
          </Button>
        </>
      }
    >
      <p className="soft">Stored events once more, oldest first, as new deliveries.</p>
      <div className="two">
        <TextField
          label="From"
          type="datetime-local"
          value={range.from}
          onChange={(from) => setRange({ ...range, from })}
        />
        <TextField
          label="To"
          type="datetime-local"
          value={range.to}
          error={typeof instants === 'string' ? instants : undefined}
          onChange={(to) => setRange({ ...range, to })}
        />
      </div>
      <fieldset className="plain">
        <legend className="lbl">Types</legend>
        <Checks names={CALL_TYPES} chosen={types} onChange={setTypes}>
          <span className="hint">None ticked: all.</span>
        </Checks>
      </fieldset>
      <TextField label="Events a second, at most" inputMode="numeric" value={rate} onChange={setRate} />
      <div className="box pad" aria-live="polite" aria-busy={preview.isFetching}>
        <span className="lbl">Preview</span>
        <div className="big num">{preview.data === undefined ? '…' : plural(count, 'event')}</div>
        {preview.data !== undefined && (
          <div className="soft num">
            {deliveries !== count && `${plural(deliveries, 'delivery', 'deliveries')} · `}
            {bytes(preview.data.bytes)} · about {duration(preview.data.expectedSeconds * 1000)} at this rate ·{' '}
            {preview.data.exact ? 'counted exactly' : `an estimate, never more than ${exactNumber(count)}`}
          </div>
        )}
      </div>
      {preview.error !== null && <Failure error={preview.error} />}
      {replay.error !== null && <Failure error={replay.error} />}
      {isPaused && <Notice tone="warn">{name} is paused: the replay waits until it is resumed.</Notice>}
      <p className="hint">
        Receivers see the same <span className="mono nowrap">Webhook-Id</span> as the first time, and a header{' '}
        <span className="mono nowrap">X-Replay-Id</span>.
      </p>
    </Dialog>
  );
}
