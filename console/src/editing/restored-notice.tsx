import { Button } from '../ui/controls.tsx';
import { Notice } from '../ui/empty-state.tsx';
import type { Restored } from './use-kept-form.ts';

interface RestoredNoticeProps {
  readonly restored: Restored | undefined;
  readonly onDrop: () => void;
}

/** Notice above a form that was left unfinished and is restored. */
export function RestoredNotice({ restored, onDrop }: RestoredNoticeProps) {
  if (restored === undefined) return null;
  return (
    <Notice>
      <p role="status">
        This form is as you have left it; nothing of it is saved yet.
        {restored.lacksSecrets && ' Secrets that you have typed are not kept: type them again.'}
      </p>
      <Button isSmall onClick={onDrop}>
        Begin anew
      </Button>
    </Notice>
  );
}
