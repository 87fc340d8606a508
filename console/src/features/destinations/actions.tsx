import { getRouteApi, useNavigate } from '@tanstack/react-router';
import { Ellipsis, RotateCcw, Send } from 'lucide-react';
import { useState } from 'react';
import { sentence, type Tagged } from '../../api/client.ts';
import { useRecordChanges } from '../../api/records.ts';
import { useMay } from '../../api/roles.ts';
import { useUntilNextStart } from '../../editing/file-records.tsx';
import { Button } from '../../ui/controls.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { exactNumber, plural } from '../../ui/format.ts';
import { Icon } from '../../ui/icons.tsx';
import { Menu, MenuItem } from '../../ui/menu.tsx';
import { toast } from '../../ui/toast.tsx';
import type { Destination } from './form.ts';
import { type DestinationStatus, type Switch, useSwitch } from './queries.ts';
import { ReplayDialog } from './replay-dialog.tsx';
import { TestDialog } from './test-dialog.tsx';

const route = getRouteApi('/shell/destinations/$name');

const DONE: Readonly<Record<Switch, string>> = {
  pause: 'paused: everything for it waits',
  resume: 'resumed: what has waited is sent first',
  disable: 'disabled: what arrives is skipped, what is owed waits',
  enable: 'enabled',
};

const BACK: Readonly<Record<Switch, Switch>> = {
  pause: 'resume',
  resume: 'pause',
  disable: 'enable',
  enable: 'disable',
};

interface DestinationActionsProps {
  readonly stored: Tagged<Destination>;
  readonly status: DestinationStatus;
}

/**
 * Nothing for a viewer, who may do none of it. The buttons go by the state that the badge beside them names.
 */
export function DestinationActions({ stored, status: { state, pending } }: DestinationActionsProps) {
  const { name } = stored.record;
  const enabled = state !== 'disabled';
  const paused = state === 'paused' || (!enabled && stored.record.paused === true);
  const { do: asked } = route.useSearch();
  const navigate = route.useNavigate();
  const [pressed, setOpen] = useState<'test' | 'replay' | 'remove'>();
  const open = pressed ?? asked;
  const change = useSwitch(name);
  const until = useUntilNextStart({ list: 'destinations', name });
  if (!useMay('editor')) return null;
  const turn = async (to: Switch, isUndo = false): Promise<void> => {
    try {
      await change.mutateAsync(to);
      // A file that does not say that it is paused leaves it paused.
      const holds = to === 'enable' || to === 'disable' ? until : '';
      toast(
        `${name} is ${DONE[to]}${holds === '' ? '' : `,${holds}`}.`,
        isUndo ? undefined : () => void turn(BACK[to], true),
      );
    } catch (error) {
      toast(sentence(error));
    }
  };
  const close = (): void => {
    setOpen(undefined);
    if (asked !== undefined) void navigate({ search: ({ do: _, ...rest }) => rest, replace: true });
  };
  return (
    <>
      {paused ? (
        <Button disabled={change.isPending} onClick={() => void turn('resume')}>
          <Icon name="play" />
          Resume
        </Button>
      ) : (
        <Button disabled={change.isPending || !enabled} onClick={() => void turn('pause')}>
          <Icon name="pause" />
          Pause
        </Button>
      )}
      <Button onClick={() => setOpen('test')}>
        <Send className="i" aria-hidden />
        Send test
      </Button>
      <Button kind="primary" disabled={!enabled} onClick={() => setOpen('replay')}>
        <RotateCcw className="i" aria-hidden />
        Replay…
      </Button>
      <Menu
        trigger={
          <Button isIcon aria-label={`More about ${name}`}>
            <Ellipsis className="i" aria-hidden />
          </Button>
        }
      >
        <MenuItem onSelect={() => void turn(enabled ? 'disable' : 'enable')}>
          {enabled ? 'Disable' : 'Enable'}
        </MenuItem>
        <MenuItem isDangerous onSelect={() => setOpen('remove')}>
          Remove…
        </MenuItem>
      </Menu>
      {open === 'test' && <TestDialog name={name} onClose={close} />}
      {open === 'replay' && <ReplayDialog name={name} isPaused={paused} onClose={close} />}
      {open === 'remove' && <RemoveDialog stored={stored} pending={pending} onClose={close} />}
    </>
  );
}

interface RemoveDialogProps {
  readonly stored: Tagged<Destination>;
  readonly pending: number;
  readonly onClose: () => void;
}

function RemoveDialog({ stored: { record, tag }, pending, onClose }: RemoveDialogProps) {
  const { name } = record;
  const { remove } = useRecordChanges('destinations', name);
  const navigate = useNavigate();
  return (
    <ConfirmDialog
      title={`Remove ${name}`}
      action="Remove destination"
      typed={name}
      isDangerous
      onConfirm={async () => {
        await remove(tag);
        toast(`${name} is removed.`);
        await navigate({ to: '/destinations' });
      }}
      onClose={onClose}
    >
      {pending === 0 ? (
        <p>Nothing is owed to it now. What arrives from now on is not sent to it.</p>
      ) : (
        <p>
          {exactNumber(pending)} pending{' '}
          {pending === 1 ? 'delivery becomes a dead letter' : 'deliveries become dead letters'}. A destination
          of the same name gets its ledger back, and {plural(pending, 'dead letter')} can be redelivered to
          it.
        </p>
      )}
    </ConfirmDialog>
  );
}
