#!/bin/bash
if [ "$(tr -d '[:space:]' < "/app/$RESULT_FILE")" = "$EXPECTED" ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
