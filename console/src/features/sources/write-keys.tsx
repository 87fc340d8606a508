import { useMutation } from '@tanstack/react-query';
import { Eye, EyeOff, Plus } from 'lucide-react';
import { useState } from 'react';
import { sentence } from '../../api/client.ts';
import { isMaskedKey } from '../../api/queries.ts';
import { useRecordChanges } from '../../api/records.ts';
import { useMay } from '../../api/roles.ts';
import { useUntilNextStart } from '../../editing/file-records.tsx';
import { Button, CopyButton } from '../../ui/controls.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Section } from '../../ui/page.tsx';
import { toast } from '../../ui/toast.tsx';
import { newWriteKey, type SourceRecord } from './queries.ts';
import './sources.css';

/**
 * The write keys of a source: hidden until asked for, and replaced without a gap by adding before removing.
 */
export function WriteKeys({ source }: { readonly source: SourceRecord }) {
  const { name, writeKeys, system } = source;
  const { update } = useRecordChanges('sources', name);
  const until = useUntilNextStart({ list: 'sources', name });
  const mayEdit = useMay('editor') && system !== true;
  const [removed, setRemoved] = useState<string>();
  const add = useMutation({
    mutationFn: async (key: string) => await update((stored) => ({ writeKeys: [key, ...stored.writeKeys] })),
    onSuccess: () =>
      toast(`The new key works at once${until}. Remove the old one when nothing uses it any more.`),
    onError: (error) => toast(sentence(error)),
  });
  return (
    <Section
      title="Write keys"
      aside={
        mayEdit && (
          <Button isSmall disabled={add.isPending} onClick={() => add.mutate(newWriteKey())}>
            <Plus className="i i-s" aria-hidden />
            Add a key
          </Button>
        )
      }
    >
      <ul className="box bleed">
        {writeKeys.map((key, nth) =>
          isMaskedKey(key) ? (
            // biome-ignore lint/suspicious/noArrayIndexKey: a masked key has no identity but its place.
            <li key={nth} className="key-row">
              <code className="mono ink clip">{`${'•'.repeat(8)}${key.slice(1)}`}</code>
            </li>
          ) : (
            <WriteKey key={key} writeKey={key} onRemove={mayEdit ? () => setRemoved(key) : undefined} />
          ),
        )}
      </ul>
      <p className="hint">
        {mayEdit ? '' : 'Whoever has one sends events as this source, so viewers are not shown them. '}
        Every one of them works. To replace one: add another, give it to your clients, then remove the old
        one.
      </p>
      {removed !== undefined && (
        <ConfirmDialog
          title="Remove a write key"
          action="Remove key"
          typed={name}
          isDangerous
          onConfirm={async () => {
            await update((stored) => ({ writeKeys: stored.writeKeys.filter((one) => one !== removed) }));
            toast(`Removed${until}. Calls with it are refused now.`);
          }}
          onClose={() => setRemoved(undefined)}
        >
          <p>
            Calls with the key that ends in <b className="mono">{removed.slice(-4)}</b> are refused from now
            on, and the events of clients that still use it are lost unless they keep them.{' '}
            {writeKeys.length - 1} of {writeKeys.length} keys stay.
          </p>
        </ConfirmDialog>
      )}
    </Section>
  );
}

interface WriteKeyProps {
  readonly writeKey: string;
  readonly onRemove: (() => void) | undefined;
}

function WriteKey({ writeKey, onRemove }: WriteKeyProps) {
  const [isShown, setIsShown] = useState(false);
  const Mark = isShown ? EyeOff : Eye;
  return (
    <li className="key-row">
      <code className="mono ink clip">{isShown ? writeKey : `${'•'.repeat(8)}${writeKey.slice(-4)}`}</code>
      <span className="rowx push">
        <Button kind="quiet" isSmall onClick={() => setIsShown(!isShown)} aria-pressed={isShown}>
          <Mark className="i i-s" aria-hidden />
          {isShown ? 'Hide' : 'Reveal'}
        </Button>
        <CopyButton text={writeKey} label="Copy key" />
        {onRemove !== undefined && (
          <Button kind="danger" isSmall onClick={onRemove}>
            Remove…
          </Button>
        )}
      </span>
    </li>
  );
}
