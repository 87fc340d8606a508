import { useState } from 'react';
import type { Tagged } from '../../api/client.ts';
import { Button } from '../../ui/controls.tsx';
import { Notice } from '../../ui/empty-state.tsx';
import { RecordDiff } from '../../ui/record-diff.tsx';
import { toast } from '../../ui/toast.tsx';
import { DestinationForm } from './destination-form.tsx';
import { type Destination, type DestinationDraft, draftOf, mergeDrafts, patchOf } from './form.ts';
import { useChangeDestination } from './queries.ts';
import { VerifySnippets } from './verify.tsx';

/**
 * The settings of a stored destination. Until something is typed the form follows the record. Afterwards a change that somebody else makes
 * is shown beside it, and nothing is saved over it unseen.
 */
export function SettingsForm({ stored }: { readonly stored: Tagged<Destination> }) {
  const change = useChangeDestination(stored.record.name);
  const [base, setBase] = useState(stored);
  const [draft, setDraft] = useState<DestinationDraft>();
  const initial = draftOf(base.record);
  const isTouched = draft !== undefined && JSON.stringify(draft) !== JSON.stringify(initial);
  const isOutdated = stored.tag !== base.tag;
  const begin = (next: DestinationDraft | undefined) => {
    setBase(stored);
    setDraft(next);
  };
  // While it is drawn, so that what was read before is never seen beside what is new.
  if (isOutdated && !isTouched) begin(undefined);
  return (
    <div className="side">
      <div className="stack">
        {isOutdated && isTouched && <Overtaken base={base} stored={stored} draft={draft} onGoOn={begin} />}
        {/* A record that was read anew begins a form of its own. */}
        <DestinationForm
          key={base.tag}
          initial={initial}
          begun={draft ?? initial}
          isNew={false}
          onChange={setDraft}
          onSave={async (changed) => {
            await change.mutateAsync({ tag: base.tag, body: patchOf(initial, changed) });
            setDraft(undefined);
            toast('Saved. The next request is made with it.');
          }}
        />
      </div>
      <VerifySnippets />
    </div>
  );
}

interface OvertakenProps {
  readonly base: Tagged<Destination>;
  readonly stored: Tagged<Destination>;
  readonly draft: DestinationDraft;
  /** Goes on from what is stored now, with this in the form; with nothing: as it is stored. */
  readonly onGoOn: (draft: DestinationDraft | undefined) => void;
}

/** Somebody else has changed the record meanwhile: what, and what to do about it. */
function Overtaken({ base, stored, draft, onGoOn }: OvertakenProps) {
  const merged = mergeDrafts(draftOf(base.record), draft, draftOf(stored.record));
  return (
    <Notice tone="warn">
      <p role="alert">Somebody else has changed this destination while you were at it:</p>
      <RecordDiff before={base.record} after={stored.record} label="What has changed meanwhile" />
      {merged.disputed.length > 0 && (
        <p>
          Both of you have changed {merged.disputed.join(', ')}. If you keep yours, theirs is gone when you
          save.
        </p>
      )}
      <div className="rowx">
        <Button isSmall onClick={() => onGoOn(merged.draft)}>
          Keep my changes on top of theirs
        </Button>
        <Button isSmall onClick={() => onGoOn(undefined)}>
          Drop mine
        </Button>
      </div>
    </Notice>
  );
}
